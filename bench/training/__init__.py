"""Programs of training and serving, over Tensorbus and beside others."""
