# Not part of the tests: modules with an action plugin are refused.
