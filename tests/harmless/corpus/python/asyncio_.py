# SPDX-License-Identifier: Apache-2.0
"""An event loop with tasks, a subprocess, a server, a signal handler, an executor, a task that
fails.
"""

import asyncio
import os
import signal
import sys

sys.path.append(os.environ["CORPUS"])
import seen


async def serve(reader, writer):
    writer.write((await reader.readline()).upper())
    writer.close()


async def main():
    loop = asyncio.get_running_loop()
    got = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, got.set)
    seen.look("loop")
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 10)
    server = await asyncio.start_unix_server(serve, "socket")
    reader, writer = await asyncio.open_unix_connection("socket")
    writer.write(b"hello\n")
    print(await reader.readline())
    server.close()
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", "echo child; exit 3", stdout=asyncio.subprocess.PIPE
    )
    print(await child.communicate(), child.returncode)
    print(await asyncio.gather(*[loop.run_in_executor(None, pow, 2, n) for n in range(10)]))
    print(await asyncio.gather(*[asyncio.sleep(0.01 * n, n) for n in (3, 1, 2)]))
    await asyncio.create_task(fails())


async def fails():
    await asyncio.sleep(0)
    raise RuntimeError("of a task")


asyncio.run(main())
