"""Records of runs and trials, and the tables and metrics of a trial."""
