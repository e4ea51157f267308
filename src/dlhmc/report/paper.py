"""What the paper shows for 16×16: N_LF·τ_int of the charge against β, read off its figure by eye."""

LATTICE = (16, 16)
HMC = {2.0: 62.0, 3.0: 270.0, 4.0: 1.3e3, 5.0: 1.4e4, 6.0: 4.4e4, 7.0: 1.15e5}
TRAINED = {2.0: 21.0, 3.0: 99.0, 4.0: 350.0, 5.0: 547.0, 6.0: 730.0, 7.0: 1.04e3}
