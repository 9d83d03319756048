"""Code that runs inside the simulators."""
