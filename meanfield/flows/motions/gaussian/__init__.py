from ._motion import GaussianMotion as GaussianMotion
