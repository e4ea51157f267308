# A container with dlhmc and nothing else. It has not been built where it was written: there was no container engine.
#
#   docker build -t dlhmc .                                 # CPU
#   docker build -t dlhmc:cuda --build-arg EXTRA='[cuda]' . # NVIDIA GPUs: CUDA comes as Python packages
#   docker run --rm -v "$PWD:/data" dlhmc demo
#   docker run --rm --gpus all -v "$PWD:/data" dlhmc:cuda doctor
FROM python:3.13-slim AS build
COPY . /source
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /wheels /source

FROM python:3.13-slim
ARG EXTRA=
COPY constraints.txt /tmp/constraints.txt
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --constraint /tmp/constraints.txt "$(echo /wheels/dlhmc-*.whl)$EXTRA" && rm /tmp/constraints.txt
RUN useradd --create-home physicist && mkdir /data && chown physicist /data
USER physicist
WORKDIR /data
ENTRYPOINT ["dlhmc"]
CMD ["--help"]
