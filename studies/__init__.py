"""Programs that measure and write pages of docs/."""
