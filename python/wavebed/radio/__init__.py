"""Radio layer 2: slots, HARQ, RLC, in-order delivery, buffers, sleep."""
