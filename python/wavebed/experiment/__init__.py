"""What every experiment has, whatever it measures: order, estimate, journal, durable trials, the machine's lock."""
