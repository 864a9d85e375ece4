from ._gaussian_motion import GaussianMotion as GaussianMotion
