# Only forwards: the commands live in dev.py. Arguments: make run ARGS="--help"
.PHONY: run test check install deep
run test check install deep:
	python3 dev.py $@ $(ARGS)
