"""Speed of the reference beside that of other libraries."""
