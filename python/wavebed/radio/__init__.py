"""What a radio link does beyond carrying bits: slots, retransmissions, order, buffers, sleep."""
