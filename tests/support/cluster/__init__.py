"""A Kubernetes control plane and a node for tests, inside the network namespace that tests/cluster/run.sh makes."""
