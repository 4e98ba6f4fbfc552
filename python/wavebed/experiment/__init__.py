"""The parts common to all experiments: order, estimate, inputs, the lock of the machine."""
