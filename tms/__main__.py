"""`python -m tms` is `tms`, for users without its folder of programs on their path."""

from tms.cli.start import main

if __name__ == "__main__":
    main()
