"""What bad input is, whom it is given to, and how it may be answered."""
