"""The chat page in a real Chromium, against a server that answers as each test says."""

import json
import os
import pathlib
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser  # noqa: E402
from mock_server import MockServer, Reply  # noqa: E402

SKIPPED = 77
ANSWERS = "[...document.querySelectorAll('.assistant .prose')].map((e) => e.textContent)"
DONE = "!document.querySelector('.streaming')"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.server = MockServer()
        self.addCleanup(self.server.stop)
        self.page = self.tab()

    def tab(self, context=None, url=None):
        page = browser.Page(self.browser, url or self.server.url, context)
        page.prefers("light")
        page.wait("document.activeElement?.id === 'input'")
        self.addCleanup(page.close)
        self.addCleanup(self.check, page)
        return page

    def check(self, page):
        """Holds after every test: no error, and not a request to any other place."""
        self.assertEqual(page.complaints(), [])
        for url in page.requested():
            self.assertTrue(url.startswith((self.server.url, "blob:", "about:")), url)

    def send(self, text, reply=None, page=None):
        page = page or self.page
        self.server.reply = reply or self.server.reply
        page.click("#input")
        page.type(text)
        page.click("#send")

    def ask(self, text, reply=None):
        """Sends, waits for the end, and returns the answers shown."""
        count = len(self.page.js(ANSWERS))
        self.send(text, reply)
        self.page.wait(f"{ANSWERS}.length === {count + 1} && {DONE}")
        return self.page.js(ANSWERS)

    def new_chat(self):
        self.page.press("Control+Shift+O")
        self.page.wait("document.querySelector('.welcome')")

    def messages(self):
        """What the server was asked last, as (role, content)."""
        return [(m["role"], m["content"]) for m in self.server.bodies[-1]["messages"]]

    # -- chatting

    def test_chat(self):
        reply = Reply("The *first* answer.", timings={"predicted_per_second": 123.4})
        self.assertEqual(self.ask("Hi", reply), ["The first answer."])
        self.assertEqual(self.messages(), [("user", "Hi")])
        body = self.server.bodies[0]
        self.assertEqual((body["stream"], body["stream_options"], body["model"]),
                         (True, {"include_usage": True}, "SmolLM2-135M-Instruct"))
        self.assertEqual(self.page.js("document.querySelector('.prose em').innerText"), "first")
        self.assertIn("123 tokens/s \u00b7 20 tokens",
                      self.page.js("document.querySelector('.stats').innerText"))
        self.assertEqual(self.page.js("document.getElementById('context').innerText"),
                         "120 of 8,192 tokens")
        self.assertEqual(self.page.js("document.title"), "Hi - Orrery")
        self.ask("And then?", Reply("The second."))
        self.assertEqual(self.messages(), [("user", "Hi"), ("assistant", "The *first* answer."),
                                           ("user", "And then?")])

    def test_answer_grows_and_the_page_follows(self):
        self.send("Go", Reply("word\n\n" * 60, pieces=6, delay=0.01))
        first = self.page.wait(f"{ANSWERS}[0]?.length")
        self.page.wait(f"{ANSWERS}[0].length > {first + 20}")
        self.assertIn("tokens/s", self.page.wait(
            f"{DONE} && document.querySelector('.stats').innerText"))
        at_end = """(({scrollTop, clientHeight, scrollHeight}) => scrollTop > 0 &&
            scrollTop + clientHeight >= scrollHeight - 1)(document.getElementById("scroll"))"""
        self.page.wait(at_end)
        self.page.reload()
        self.page.wait(at_end)
        self.page.js("document.getElementById('scroll').scrollTop = 0")
        self.page.click("#jump")
        self.page.wait("document.getElementById('scroll').scrollTop > 0")

    def test_stop_keeps_what_came(self):
        for way in ("#send", "Escape"):
            self.server.left.clear()
            self.send("Go", Reply("word " * 400, delay=0.02))
            self.page.wait("document.querySelector('.streaming .prose')?.innerText.length > 20")
            if way == "Escape":
                self.page.press(way)
            else:
                self.page.click(way)
            self.page.wait(DONE)
            last = self.page.js(f"{ANSWERS}.at(-1)")
            self.assertTrue(20 < len(last) < 1500, last)
            self.assertIn("Stopped.", self.page.js("document.querySelector('#thread').innerText"))
            self.assertTrue(self.server.left.wait(5), "the server was not told")

    def test_regenerate_is_a_branch(self):
        self.ask("Hi", Reply("One."))
        self.server.reply = Reply("Two.")
        self.page.click(".assistant [title='Answer again']")
        self.page.wait(f"{ANSWERS}[0] === 'Two.' && {DONE}")
        self.assertEqual(self.messages(), [("user", "Hi")])
        self.assertEqual(self.page.js("document.querySelector('.branches').innerText"), "2/2")
        self.page.click("[title='Earlier branch']")
        self.page.wait(f"{ANSWERS}[0] === 'One.'")
        self.ask("More", Reply("After one."))
        self.assertEqual(self.messages()[1], ("assistant", "One."))

    def test_edit_is_a_branch(self):
        self.ask("Old question", Reply("Old answer."))
        self.ask("Follow-up", Reply("More."))
        self.server.reply = Reply("New answer.")
        self.page.hover(".user")
        self.page.click(".user [title='Edit']")
        self.page.js("document.querySelector('.editor textarea').select()")
        self.page.type("New question")
        self.page.click(".editor .primary")
        self.page.wait(f"{ANSWERS}.join() === 'New answer.' && {DONE}")
        self.assertEqual(self.messages(), [("user", "New question")])
        self.page.click("[title='Earlier branch']")
        self.page.wait(f"{ANSWERS}.join() === 'Old answer.,More.'")

    def test_edit_an_answer(self):
        self.ask("Hi", Reply("Wrong."))
        self.page.click(".assistant [title='Edit']")
        self.page.js("document.querySelector('.editor textarea').select()")
        self.page.type("Right.")
        self.page.press("Control+Enter")
        self.page.wait(f"{ANSWERS}.join() === 'Right.'")
        self.ask("Go on", Reply("Yes."))
        self.assertEqual(self.messages()[1], ("assistant", "Right."))

    def test_reasoning_is_folded(self):
        self.ask("Hi", Reply("Done.", reasoning="Let me think about it."))
        self.assertFalse(self.page.js("document.querySelector('.reasoning').open"))
        self.page.click(".reasoning summary")
        self.page.wait("document.querySelector('.thoughts').innerText === 'Let me think about it.'")
        self.assertEqual(self.page.js(ANSWERS), ["Done."])
        self.ask("More", Reply("Yes."))
        self.assertEqual(self.messages()[1], ("assistant", "Done."))

    def test_settings(self):
        self.page.click("#settings")
        self.page.click("[aria-label='System prompt']")
        self.page.type("Be brief.")
        for name, value in (("temperature", "0.5"), ("top_k", "7"), ("seed", "42"), ("top_p", "9")):
            self.page.click(f"[name={name}]")
            self.page.type(value)
        self.page.click("[aria-label='Stop at']")
        self.page.type("END\nSTOP")
        self.page.click("[title='Close']")
        self.ask("Hi")
        body = self.server.bodies[0]
        self.assertEqual(self.messages(), [("system", "Be brief."), ("user", "Hi")])
        self.assertEqual({name: body.get(name) for name in (
            "temperature", "top_k", "seed", "stop", "top_p", "max_tokens")},
            {"temperature": 0.5, "top_k": 7, "seed": 42, "stop": ["END", "STOP"],
             "top_p": None, "max_tokens": None})  # a top_p of 9 is refused
        self.new_chat()
        self.ask("New one")
        body = self.server.bodies[1]
        self.assertEqual((body["temperature"], body.get("seed")), (0.5, None))
        self.assertEqual(self.messages(), [("user", "New one")])

    def test_model_picker(self):
        self.page.wait("document.getElementById('model').options.length === 2")
        self.page.js("""(() => { const select = document.getElementById("model");
            select.value = "Qwen3-4B"; select.dispatchEvent(new Event("change")); })()""")
        self.ask("Hi")
        self.assertEqual(self.server.bodies[0]["model"], "Qwen3-4B")

    def test_a_server_without_props(self):
        self.server.context = 0
        self.page.reload()
        self.ask("Hi", Reply("Yes.", usage=None))
        self.assertEqual(self.page.js("document.getElementById('context').innerText"), "")

    # -- conversations

    def test_reload_keeps_conversations(self):
        self.ask("First conversation", Reply("One.", reasoning="hm"))
        self.new_chat()
        self.ask("Second conversation", Reply("Two."))
        self.page.reload()
        self.page.wait(f"{ANSWERS}.join() === 'Two.'")
        self.assertEqual(self.page.js(
            "[...document.querySelectorAll('.conversation')].map((e) => e.innerText)"),
            ["Second conversation", "First conversation"])
        self.page.click(".conversation:not(.current) a")
        self.page.wait(f"{ANSWERS}.join() === 'One.'")
        self.page.js("history.back()")
        self.page.wait(f"{ANSWERS}.join() === 'Two.'")

    def test_reload_in_mid_answer_keeps_what_was_stored(self):
        self.send("Go", Reply("word " * 400, delay=0.02))
        self.page.wait("document.querySelector('.streaming .prose')?.innerText.length > 250")
        self.page.reload()
        self.page.wait(f"{ANSWERS}[0]?.length > 20 && {DONE}")
        self.assertIn("Stopped.", self.page.js("document.querySelector('#thread').innerText"))

    def test_search_rename_delete(self):
        self.ask("Apples", Reply("They grow on trees."))
        self.new_chat()
        self.ask("Pears", Reply())
        titles = "[...document.querySelectorAll('.conversation span')].map((e) => e.innerText)" \
                 ".join()"
        self.page.press("Control+k")
        self.page.type("on TREES")
        self.page.wait(f"{titles} === 'Apples'")
        self.page.press("Escape")
        self.page.wait(f"{titles} === 'Pears,Apples'")
        self.page.click(".current [title='Rename']")
        self.page.type("Quinces")
        self.page.press("Enter")
        self.page.wait(f"{titles} === 'Quinces,Apples'")
        self.page.click(".current [title='Delete']")
        self.page.wait(f"{titles} === 'Apples' && document.querySelector('.welcome')")
        self.page.click(".toast button")
        self.page.wait(f"{titles} === 'Quinces,Apples'")
        self.page.reload()
        self.page.wait(f"{titles} === 'Quinces,Apples'")

    def test_export_and_import(self):
        self.ask("Question", Reply("**Answer**"))
        with tempfile.TemporaryDirectory() as folder:
            self.page.downloads_to(folder)
            self.page.click("#settings")
            self.page.js("[...document.querySelectorAll('dialog button')]"
                         ".filter((e) => /Export|Markdown/.test(e.innerText))"
                         ".map((e) => e.click())")
            limit = browser.time.monotonic() + browser.PATIENCE
            while sorted(path.suffix for path in pathlib.Path(folder).iterdir()) \
                    != [".json", ".md"]:
                self.assertLess(browser.time.monotonic(), limit, os.listdir(folder))
                browser.time.sleep(0.02)
            markdown = next(pathlib.Path(folder).glob("*.md")).read_text(encoding="utf-8")
            self.assertIn("**Assistant**\n\n**Answer**", markdown)
            exported = next(pathlib.Path(folder).glob("*.json"))
            other = self.tab()
            other.click("#settings")
            other.choose_file("input[type=file]", exported)
            other.wait("document.querySelector('.toast')?.innerText ==="
                       " 'Imported 1 conversations.'")
            other.click(".conversation a")
            other.wait(f"{ANSWERS}.join() === 'Answer'")
            hostile = json.loads(exported.read_text(encoding="utf-8"))
            for node in hostile["conversations"][0]["nodes"].values():
                node["parent"] = node["id"]  # a ring
            pathlib.Path(folder, "bad.json").write_text(json.dumps(hostile), encoding="utf-8")
            other.click("#settings")
            other.choose_file("input[type=file]", pathlib.Path(folder, "bad.json"))
            other.wait("document.querySelector('.toast:last-child').innerText ==="
                       " 'This file holds no conversations.'")

    def test_two_tabs_see_the_same(self):
        other = self.tab(self.page.context)
        self.page.to_front()
        self.ask("Hi", Reply("One."))
        other.click(".conversation a")
        other.wait(f"{ANSWERS}.join() === 'One.'")
        self.ask("More", Reply("Two."))
        other.wait(f"{ANSWERS}.join() === 'One.,Two.'")

    # -- what goes wrong

    def test_the_server_goes_away(self):
        port = self.server.server_port
        self.ask("Hi", Reply("One."))
        self.server.stop()
        self.send("Still there?")
        self.page.wait("document.querySelector('.failure')?.innerText"
                       ".includes('cannot be reached')")
        self.page.wait("!document.getElementById('banner').hidden")
        self.server = MockServer(port)
        self.page.wait("document.getElementById('banner').hidden")
        self.server.reply = Reply("Back again.")
        self.page.click(".failure button")
        self.page.wait(f"{ANSWERS}.join() === 'One.,Back again.' && {DONE}")
        self.assertFalse(self.page.js("document.querySelector('.branches')"))

    def test_the_server_dies_in_mid_answer(self):
        hold = threading.Event()
        self.send("Hi", Reply("This is the beginning of", die_after=4, hold=hold))
        self.page.wait(f"{ANSWERS}[0] === 'This is the begi'")
        hold.set()
        failure = self.page.wait("document.querySelector('.failure')?.innerText")
        self.assertIn("The connection ended before the answer did.", failure)
        self.assertEqual(self.page.js(ANSWERS), ["This is the begi"])

    def test_errors_in_words(self):
        full = {"message": "the prompt has 9000 tokens, the context 8192",
                "code": "context_length_exceeded"}
        for reply, words in (
                (Reply(status=400, error=full), "start a new chat"),
                (Reply(status=503, error={"message": "The queue is full."},
                       headers={"Retry-After": "7"}), "The queue is full. Try again in 7 s."),
                (Reply(status=500, error=None), "status 500"),
                (Reply("Some words", die_after=1, error={"message": "NaN in the logits"}), "NaN"),
                (Reply(raw=b"data: {not json}\n\n"), "not JSON"),
                (Reply(raw=b""), "ended before")):
            self.new_chat()
            self.send("Hi", reply)
            self.assertIn(words, self.page.wait("document.querySelector('.failure')?.innerText"))

    def test_a_message_behind_a_failed_answer_joins_the_one_before(self):
        self.send("Hi", Reply(status=500))
        self.page.wait("document.querySelector('.failure')")
        self.send("again", Reply("Yes."))
        self.page.wait(f"{ANSWERS}.at(-1) === 'Yes.' && {DONE}")
        self.assertEqual(self.messages(), [("user", "Hi\n\nagain")])

    def test_pings_before_the_first_token(self):
        self.send("Hi", Reply("Yes.", pings=25, delay=0.1))
        self.page.wait("document.querySelector('.waiting').innerText.startsWith('Reading')")
        self.page.wait(f"{ANSWERS}.join() === 'Yes.' && {DONE}")

    def test_odd_line_ends(self):
        event = 'data: {"choices":[{"delta":{"content":"%s"},"finish_reason":%s}]}'
        raw = (event % ("a", "null") + "\r\n\r\n: ping\r\r" + event % ("b\\u00e9", "null") + "\r\r"
               + "event: x\nid: 4\n" + event % ("c", '"stop"') + "\n\ndata: [DONE]\n\n").encode()
        self.assertEqual(self.ask("Hi", Reply(raw=raw)), ["ab\u00e9c"])

    def test_the_key_is_asked_for(self):
        self.server.key = "secret"
        self.page.reload()
        self.page.wait("document.querySelector('#key-dialog[open]')")
        self.page.type("secret")
        self.page.press("Enter")
        self.page.wait("document.getElementById('model').options.length === 2")
        self.ask("Hi", Reply("In."))
        self.assertEqual(self.page.js("sessionStorage.length + '/' + JSON.stringify(localStorage)"
                                      ".includes('secret')"), "1/false")
        self.server.key = "changed"
        self.send("And now?")
        self.page.wait("document.querySelector('.failure button')?.innerText === 'Enter the key'")

    # -- form

    def test_keyboard(self):
        self.page.type("one")
        self.page.press("Shift+Enter")
        self.page.wait("document.getElementById('input').value === 'one\\n'")
        self.page.type("two")
        self.page.press("Enter")
        self.page.wait(f"{ANSWERS}.length === 1 && {DONE}")
        self.assertEqual(self.messages(), [("user", "one\ntwo")])
        self.page.press("ArrowUp")
        self.page.wait("document.activeElement === document.querySelector('.editor textarea')")
        self.page.press("Escape")
        self.page.wait("!document.querySelector('.editor')")
        self.page.press("Control+b")
        self.page.wait("document.getElementById('sidebar').offsetWidth === 0")
        self.page.press("Control+b")
        self.page.js("document.activeElement.blur()")
        self.page.press("/")
        self.page.wait("document.activeElement.id === 'input'")
        reached = set()
        for _ in range(30):
            self.page.press("Tab")
            reached.add(self.page.js("document.activeElement.getAttribute('aria-label') ||"
                                     " document.activeElement.id"))
        self.assertLessEqual({"Model", "Copy", "Answer again", "Edit", "Settings", "new-chat"},
                             reached)

    def test_phone(self):
        self.page.size(360, 740, phone=True)
        self.page.reload()
        self.ask("Hi", Reply(f"# {'Long ' * 30}\n\n```\n{'x' * 300}\n```\n\n| a | b |\n|-|-|\n"
                             f"| {'y ' * 200}|{'z' * 100}|\n\nhttps://example.com/{'p' * 300}"))
        self.assertEqual(self.page.js("document.documentElement.scrollWidth"), 360)
        self.assertEqual(self.page.js("document.getElementById('scroll').scrollWidth"), 360)
        left = "document.getElementById('sidebar').getBoundingClientRect().left"
        self.assertLess(self.page.js(left), 0)
        self.page.click("#menu")
        self.page.wait(f"{left} === 0")
        self.page.click("#new-chat")
        self.page.wait(f"{left} < 0 && document.querySelector('.welcome')")

    def test_dark_and_light(self):
        paper = "getComputedStyle(document.body).backgroundColor"
        light = self.page.js(paper)
        self.page.prefers("dark")
        self.page.wait(f"{paper} !== '{light}'")
        self.page.click("#theme")
        self.page.wait(f"{paper} === '{light}'")
        self.page.reload()
        self.assertEqual(self.page.js(paper), light)
        self.page.click("#theme")
        self.page.prefers("light")
        self.page.wait(f"{paper} !== '{light}'")


if __name__ == "__main__":
    if not browser.program():
        print("chromium is not installed: the chat page is not tested (scripts/setup --test)")
        sys.exit(SKIPPED)
    unittest.main()
