# Puts this folder on the module path for the tests in folders below.
