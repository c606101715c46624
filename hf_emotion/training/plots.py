def write_plots(*a): pass
