"""The optimizer's settings of every golden, for the script that makes them and the one that checks them."""

STEPS = 10
LEARNING_RATE = 1e-2
BETAS = (0.9, 0.95)
EPS = 1e-8
WEIGHT_DECAY = 0.1  # on tensors of two or more axes only, embeddings included
MAX_GRAD_NORM = 1.0
