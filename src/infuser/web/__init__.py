"""What our small HTTP servers share, the viewer and `infuser serve`.

| file        | holds                                                                                    |
|-------------|------------------------------------------------------------------------------------------|
| guard       | who may ask: hosts, origins and content types; the headers that every answer carries     |
| bodies      | bodies of requests, bounded in size and time, and the JSON inside                         |
| connections | connections that end when their client is silent                                         |
| listening   | addresses and sockets; uvicorn with our settings, also in a thread as long as a `with`   |
"""
