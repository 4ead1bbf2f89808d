"""Takes out of the tables what no reader can see any more, and looks into them."""
