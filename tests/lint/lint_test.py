"""Each rule of the lint fires on a small bad tree and stays silent on a good one."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cpp_text  # noqa: E402
import lint  # noqa: E402

GOOD = {
    "src/include_table.txt": "base:\nstorage: base\ntext: storage/metadata.hpp base\ncli: base\n",
    "src/CMakeLists.txt": "orrery_module(base)\norrery_module(text DEPS storage base LIBS x)\n",
    "src/base/check.hpp": "#pragma once\n",
    "src/base/check.cpp": '#include "base/check.hpp"\nvoid f() { std::abort(); }\n',
    "src/storage/metadata.hpp": "#pragma once\n",
    "src/storage/file.hpp": "#pragma once\n",
    "tests/base/check_test.cpp": 'TEST(A, B) { GTEST_SKIP() << "no such unit here"; }\n',
}
PASTE = "TO" + "DO"


class LintTest(unittest.TestCase):
    def findings(self, changes=None, **options):
        """Lints the good tree with the changes {path: text} and returns "path:line: [rule]"s."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**GOOD, **(changes or {})}.items():
                file = pathlib.Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            found = lint.lint(root, with_format=options.get("with_format", False))
        return [f"{finding.path}:{finding.line}: [{finding.rule}]" for finding in found]

    def test_good_tree_is_clean(self):
        self.assertEqual(self.findings(), [])

    def test_include_table(self):
        def includes(path, target):
            header = "#pragma once\n" if path.endswith(".hpp") else ""
            return self.findings({path: f'{header}#include "{target}"\n'})

        self.assertEqual(includes("src/text/a.hpp", "storage/metadata.hpp"), [])
        self.assertEqual(includes("src/text/a.hpp", "storage/file.hpp"),
                         ["src/text/a.hpp:2: [include]"])
        self.assertEqual(includes("src/base/a.hpp", "storage/file.hpp"),
                         ["src/base/a.hpp:2: [include]"])
        self.assertEqual(includes("src/base/a.hpp", "check.hpp"), ["src/base/a.hpp:2: [include]"])
        self.assertEqual(includes("src/other/a.hpp", "base/check.hpp"),
                         ["src/other/a.hpp:1: [include]"])
        self.assertEqual(self.findings({"src/base/a.hpp": '#pragma once\n// #include "x/y.hpp"\n'}),
                         [])

    def test_web(self):
        def page(name, text):
            return self.findings({f"web/{name}": text})

        self.assertEqual(page("a.js", "p.textContent = text;\n"), [])
        for text in ("p.innerHTML = text;", "eval(text);", "document.write(x);"):
            self.assertEqual(page("a.js", f"{text}\n"), ["web/a.js:1: [web]"])
        self.assertEqual(page("a.html", '<script src="web/a.js"></script>\n'), [])
        self.assertEqual(page("a.html", '<script src="https://x.org/a.js"></script>\n'),
                         ["web/a.html:1: [web]"])
        self.assertEqual(page("a.css", "p { }" + " " * 96 + "/* */\n"), ["web/a.css:1: [columns]"])

    def test_include_pattern_stays_in_its_folder(self):
        table = {"engine": ["backend/*.hpp"]}
        self.assertTrue(lint.may_include(table, "engine", "backend/backend.hpp"))
        self.assertFalse(lint.may_include(table, "engine", "backend/cpu/program.hpp"))

    def test_module_dependencies(self):
        self.assertEqual(self.findings({"src/CMakeLists.txt": "orrery_module(base DEPS text)\n"}),
                         ["src/CMakeLists.txt:1: [include]"])

    def test_text_rules(self):
        self.assertEqual(self.findings({"a.py": "x = 1"}), ["a.py:1: [text]"])
        self.assertEqual(self.findings({"a.py": "x = 1 \n"}), ["a.py:1: [text]"])
        self.assertEqual(self.findings({"a.py": "\tx = 1\n"}), ["a.py:1: [text]"])
        self.assertEqual(self.findings({"a.md": "\u00e9\n"}), ["a.md:1: [ascii]"])
        self.assertEqual(self.findings({"a.py": "\n#" + "x" * 100 + "\n"}), ["a.py:2: [columns]"])
        self.assertEqual(self.findings({"a.py": "#" + "x" * 99 + "\n"}), [])
        self.assertEqual(self.findings({"a.py": "x\n" * 501}), ["a.py:500: [file-length]"])
        self.assertEqual(self.findings({"a.py": "x\n" * 500}), [])

    def test_words(self):
        self.assertEqual(self.findings({"a.py": f"# {PASTE}: later\n"}), ["a.py:1: [unfinished]"])
        self.assertEqual(self.findings({"a.md": "see /ro" + "ot/x\n"}), ["a.md:1: [machine-path]"])
        self.assertEqual(self.findings({"a.md": "a/root/b and /home/user/x\n"}), [])

    def test_function_length(self):
        def function(lines):
            return "namespace a {\nint f(int x) {\n" + "  ++x;\n" * (lines - 2) + "}\n}\n"

        self.assertEqual(self.findings({"src/base/a.hpp": "#pragma once\n" + function(69)}), [])
        self.assertEqual(self.findings({"src/base/a.hpp": "#pragma once\n" + function(70)}),
                         ["src/base/a.hpp:3: [function-length]"])

    def test_calls(self):
        def call(path, text):
            return self.findings({path: f"#pragma once\ninline void f() {{ {text}; }}\n"})

        for text in ('printf("x")', 'std::cout << "x"', "exit(1)", "std::abort()", "std::stoi(s)",
                     "strcpy(a, b)"):
            self.assertEqual(call("src/base/a.hpp", text), ["src/base/a.hpp:2: [call]"], text)
        self.assertEqual(call("src/base/a.hpp", 'snprintf(a, 1, "exit(1)")'), [])
        self.assertEqual(call("src/cli/a.hpp", 'printf("x")'), [])
        self.assertEqual(call("src/cli/a.hpp", "strcpy(a, b)"), ["src/cli/a.hpp:2: [call]"])

    def test_headers(self):
        self.assertEqual(self.findings({"src/base/a.hpp": "int x;\n"}),
                         ["src/base/a.hpp:1: [header]"])

    def test_mirror_and_skips(self):
        self.assertEqual(self.findings({"src/storage/file.cpp": "int x;\n"}),
                         ["src/storage:1: [mirror]"])
        self.assertEqual(self.findings({"tests/base/other.cpp": "TEST(A, B) {}\n"}),
                         ["tests/base/other.cpp:1: [mirror]"])
        self.assertEqual(self.findings({"tests/base/a_test.cpp": "TEST(A, B) { GTEST_SKIP(); }\n"}),
                         ["tests/base/a_test.cpp:1: [skip]"])
        self.assertEqual(self.findings({"tests/base/a_test.cpp": "TEST(A, DISABLED_B) {}\n"}),
                         ["tests/base/a_test.cpp:1: [skip]"])

    def test_links(self):
        self.assertEqual(self.findings({"a.md": "[b](docs/b.md)\n"}), ["a.md:1: [link]"])
        self.assertEqual(self.findings({"a.md": "[b](docs/b.md#x) [c](mailto:x)\n",
                                        "docs/b.md": "x\n"}), [])

    def test_exceptions_need_a_reason_and_a_use(self):
        bad = {"src/base/a.hpp": "int x;\n"}
        entry = "header src/base/a.hpp"
        self.assertEqual(self.findings({**bad, lint.EXCEPTIONS: f"{entry} a reason\n"}), [])
        self.assertEqual(self.findings({**bad, lint.EXCEPTIONS: f"{entry}\n"}),
                         [f"{lint.EXCEPTIONS}:1: [exception]"])
        self.assertEqual(self.findings({lint.EXCEPTIONS: f"{entry} a reason\n"}),
                         [f"{lint.EXCEPTIONS}:1: [exception]"])

    @unittest.skipUnless(shutil.which("clang-format-19"), "clang-format-19 is not installed")
    def test_format(self):
        self.assertEqual(self.findings({"src/base/a.hpp": "#pragma once\nint   x;\n"},
                                       with_format=True), ["src/base/a.hpp:2: [format]"])

    @unittest.skipUnless(shutil.which("g++"), "g++ is not installed")
    def test_weak_symbols_of_kernel_objects(self):
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root, "orrery_kernels.dir")
            folder.mkdir()
            source = pathlib.Path(root, "a.cpp")
            for name, text in (("unit_good", "extern const int t = 1;"),
                               ("unit_bad", "inline int f() { return 1; } int g() { return f(); }"),
                               ("other", "inline int f() { return 1; } int g() { return f(); }")):
                source.write_text(text + "\n", encoding="utf-8")
                subprocess.run(["g++", "-O0", "-c", str(source), "-o", str(folder / f"{name}.o")],
                               check=True)
            found = [(finding.path, finding.rule) for finding in lint.check_objects(root)]
        self.assertEqual(found, [("unit_bad.o", "weak-symbol")])


class FunctionsTest(unittest.TestCase):
    def names(self, text):
        return [(function.name, function.length) for function in cpp_text.functions(text)]

    def test_functions_in_scopes(self):
        self.assertEqual(
            self.names("namespace a::b {\nclass C : D {\n int f() {\n }\n};\n}\n"), [("f", 2)])
        self.assertEqual(self.names("struct alignas(64) T {\n int x = g();\n};\n"), [])
        self.assertEqual(self.names("struct T f() {\n}\n"), [("f", 2)])
        self.assertEqual(self.names('extern "C" {\nvoid f(void) {\n}\n}\n'), [("f", 2)])
        self.assertEqual(self.names("template <class T = int>\nT f(T x = {}) {\n}\n"), [("f", 2)])

    def test_initialisers_are_no_functions(self):
        self.assertEqual(self.names("const int t[] = {\n f(1), 2,\n};\nint x{\n3};\n"), [])

    def test_lambdas_and_local_types_belong_to_their_function(self):
        self.assertEqual(
            self.names("void f() {\n struct L { void g() {} };\n h = [] {\n };\n}\n"), [("f", 5)])

    def test_comments_literals_and_branches_do_not_unbalance(self):
        self.assertEqual(self.names("void f() {\n // }\n g('}', \"}\", R\"x(}\")x\", 1'000);\n}\n"),
                         [("f", 4)])
        self.assertEqual(self.names("#if A\nvoid f(int) {\n#else\nvoid f() {\n#endif\n}\n"),
                         [("f", 5)])

    def test_constructor_with_initialiser_list(self):
        self.assertEqual(self.names("A::A(int x) : x_(x), y_(x) {\n}\n"), [("A::A", 2)])


if __name__ == "__main__":
    unittest.main()
