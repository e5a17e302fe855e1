# Forwards to dev.py, which has the commands. Pass arguments as in: make run ARGS="--help"
.PHONY: run test check install deep
run test check install deep:
	python3 dev.py $@ $(ARGS)
