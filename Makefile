# Everything runs in .venv, which the first command makes.
.PHONY: demo test lint conformance bench clean

demo: .venv/ready
	.venv/bin/python -m modeld.replay.demo --out out/demo

test: .venv/ready
	.venv/bin/pytest --numprocesses 2 --dist loadscope

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

conformance: .venv/ready
	.venv/bin/python -m compile.conformance

bench: .venv/ready
	.venv/bin/python -m benchmarks

.venv/ready: pyproject.toml scripts/setup.sh
	scripts/setup.sh

clean:
	rm -rf .venv out
