"""`python -m tms` is `tms`: for whoever has not its folder of programs on the path."""

from tms.cli.start import main

if __name__ == "__main__":
    main()
