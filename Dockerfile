# rela serve in a container:
#
#   docker build -t rela .
#   docker run -p 127.0.0.1:8000:8000 --stop-timeout 40 -v $PWD/runs/multi30k/model:/models/en-de:ro \
#     rela /models/en-de --hosts localhost
#
# `docker stop` kills after 10 seconds, or what --stop-timeout says: the service finishes what it accepted, for up to
# --timeout (30) and 5 seconds. Set RELA_TOKEN (-e RELA_TOKEN) before you publish the port to others.

FROM python:3.12-slim

# The kernels are compiled for the machine they run on, at first use.
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/rela
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY configs ./configs
COPY src ./src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt ".[serve]"

RUN useradd --create-home rela
USER rela
WORKDIR /home/rela

EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["rela", "serve", "--host", "0.0.0.0", "--port", "8000"]
