"""Support of tests and studies: simulators, jobs, checks, corner cases, real data."""
