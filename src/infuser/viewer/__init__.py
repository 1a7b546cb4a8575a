"""One small server and one page: type a text, switch knowledge on and off, watch attention and answer change.

| file    | holds                                                                                            |
|---------|--------------------------------------------------------------------------------------------------|
| views   | what can be shown: View, and the views of infused encoders and of relation models                |
| opening | views by name: the embedded example, a run, a saved model, any checkpoint                        |
| request | what the page asks, read from a request's body                                                   |
| limits  | how much one client and all clients together may ask; the one thread that uses the model         |
| app     | the addresses: the page, its files, /api/model, /api/see and /api/explain                        |
| server  | the server itself, in the foreground until Ctrl-C or in a thread of a test                       |
| default | what is shown when nothing is given                                                              |
| static/ | the page: index.html, viewer.css, viewer.js; its components come from `infuser.reports`          |

Who may ask, how requests arrive and where the server listens is shared with `infuser serve`: see `infuser.web`.

The model is used by one thread at a time, a text is never put into a page as HTML, and a request that fails is
answered with a sentence while the server goes on.
"""
