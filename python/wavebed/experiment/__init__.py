"""The parts common to all experiments: order, estimate, journal, durable trials, the machine's lock."""
