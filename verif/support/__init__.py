"""What tests and studies stand on: simulators, jobs, checks, corner cases, real data."""
