"""Virtual time: the guest kernel, and guests in which trials run."""
