"""Laboratories as workloads and trials know them: hosts, processes, a clock."""
