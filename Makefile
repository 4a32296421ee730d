# The commands a newcomer types. Everything runs in .venv, which `make setup` makes once.
# PYTHON=python3.12 chooses the Python to build it on.

VENV := .venv
STAMP := $(VENV)/.setup-done
PYTHON_IN := $(VENV)/bin/python
CLI := $(VENV)/bin/robot-infer

# One computer, a domain of its own: a demo or a test never speaks to a robot that is running.
export ROS_DOMAIN_ID := $(or $(ROBOT_INFER_DOMAIN_ID),77)
export ROS_AUTOMATIC_DISCOVERY_RANGE := LOCALHOST
# Large frames are lost without it (config/fastdds.xml says why); older ROS knows the second name.
export FASTDDS_DEFAULT_PROFILES_FILE := $(CURDIR)/config/fastdds.xml
ifneq ($(filter humble iron jazzy,$(ROS_DISTRO)),)
export FASTRTPS_DEFAULT_PROFILES_FILE := $(FASTDDS_DEFAULT_PROFILES_FILE)
endif
ifeq ($(ROS_DISTRO),humble)
export ROS_LOCALHOST_ONLY := 1
endif
export ROS_LOG_DIR := $(CURDIR)/log
# The installed launch files, executables and the ament index of .venv, before those of a ROS 2.
export AMENT_PREFIX_PATH := $(CURDIR)/$(VENV)$(if $(AMENT_PREFIX_PATH),:$(AMENT_PREFIX_PATH))

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-eval test doctor bench-step bench-pool bench-kernels bench-linear bench-replay \
	bench-node bench-cycles soak check-package kernel-figures parameters lint clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make the environment .venv (the other targets do it themselves)

$(STAMP): setup.py pyproject.toml tools/setup_env.sh $(wildcard kernels/cpu/attend*)
	VENV=$(CURDIR)/$(VENV) tools/setup_env.sh
	@touch $@

demo: $(STAMP)  ## drive the simulated robot by camera and instruction, and report
	$(CLI) demo $(ARGS)

demo-eval: $(STAMP)  ## success rate of the demo policy over 100 episodes, and with moved blocks
	$(CLI) demo-eval $(ARGS)

test: $(STAMP)  ## run all tests
	$(PYTHON_IN) -m pytest -q $(ARGS)

doctor: $(STAMP)  ## say what was found on this computer and what is missing
	$(CLI) doctor

bench-step: $(STAMP)  ## time one inference step: cold, same frames with a new state, nothing new
	$(PYTHON_IN) tools/bench/bench_step.py $(ARGS)

bench-pool: $(STAMP)  ## time take and release of pages in small and large pools
	$(PYTHON_IN) tools/bench/bench_pool.py $(ARGS)

bench-linear: $(STAMP)  ## weights in 8 and 4 bits: time and error of projections and of whole steps
	$(PYTHON_IN) tools/bench/bench_linear.py $(ARGS)

bench-kernels: $(STAMP)  ## attention over pages on the CPU, beside SDPA, gathering, and the memory
	$(PYTHON_IN) tools/bench/bench_kernels.py $(ARGS)

bench-replay: $(STAMP)  ## read raw images from bags, beside rosbags alone; speed of a replay
	$(PYTHON_IN) tools/bench/bench_replay.py $(ARGS)

bench-node: $(STAMP)  ## lateness of the control ticks beside a bare loop and a plain rclpy timer
	$(PYTHON_IN) tools/bench/bench_node.py $(ARGS)

bench-cycles: $(STAMP)  ## configure and clean the node up 200 times: no growth of anything
	$(PYTHON_IN) tools/bench/cycles.py $(ARGS)

soak: $(STAMP)  ## run the node for half an hour: no growth, no drift (ARGS='--minutes 5')
	$(PYTHON_IN) tools/bench/soak.py $(ARGS)

check-package: $(STAMP)  ## install in every way (colcon, symlink, pip, editable) and run from each
	tools/check_package.sh

kernel-figures: $(STAMP)  ## compile the GPU kernels for every chip and take their figures anew
	$(CLI) kernels check --target all --shape SmolVLA --json test/kernels/data/compiled.json $(ARGS)

parameters: $(STAMP)  ## write config/robot_infer.yaml and the README's table from config.py
	$(PYTHON_IN) tools/write_parameters.py

lint: $(STAMP)  ## style: ruff with the rules of pyproject.toml
	$(PYTHON_IN) -m ruff check .

clean:  ## remove the environment and everything built
	rm -rf $(VENV) build install log reports *.egg-info .pytest_cache .hypothesis .ruff_cache
