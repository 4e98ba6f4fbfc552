//! turmoil over links in virtual time.

mod transfers;
