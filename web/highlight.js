// Light highlighting: comments, strings, numbers, keywords and calls, by one expression a language.

const MAX_LENGTH = 60000;  // longer code stays plain

const words = (text) => new Set(text.split(" "));

const C = "if else for while do switch case default break continue return goto struct enum union " +
  "const static extern void int char float double long short unsigned signed bool auto sizeof";
const JS = "if else for while do switch case default break continue return function const let " +
  "var class extends new this super import export from as async await yield of in " +
  "typeof instanceof delete void try catch finally throw null undefined true false " +
  "static get set interface type enum implements private public protected readonly";

const SLASHES = String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`;
const HASH = String.raw`#[^\n]*`;
const QUOTES = String.raw`"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?`;
const BACKTICKS = "`(?:[^`\\\\]|\\\\[^])*`?";
const TRIPLE = String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)`;

// comment and string are expressions; keywords are exact words.
const LANGUAGES = {
  c: {comment: SLASHES, string: QUOTES, keywords: words(C +
    " class namespace template typename using public private protected virtual override new " +
    "delete this nullptr true false constexpr noexcept try catch throw operator concept requires " +
    "co_await co_return co_yield explicit inline friend mutable")},
  java: {comment: SLASHES, string: `${TRIPLE}|${QUOTES}`, keywords: words(C +
    " class interface extends implements import package public private protected final abstract " +
    "new this super null true false try catch finally throw throws boolean byte String var val " +
    "fun when is in object override internal record sealed using namespace async await string")},
  js: {comment: SLASHES, string: `${QUOTES}|${BACKTICKS}`, keywords: words(JS)},
  python: {comment: HASH, string: `${TRIPLE}|${QUOTES}`, keywords: words(
    "def class if elif else for while break continue return import from as with try except " +
    "finally raise lambda yield global nonlocal pass in is not and or None True False async " +
    "await del assert match case self")},
  rust: {comment: SLASHES, string: String.raw`"(?:[^"\\]|\\[^])*"?|'(?:[^'\\\n]|\\.)'`,
    keywords: words("fn let mut const static if else match for while loop break continue return " +
    "struct enum impl trait pub use mod crate self Self super as in where move ref async await " +
    "dyn unsafe type true false i32 i64 u8 u32 u64 usize f32 f64 bool str String Vec Option")},
  go: {comment: SLASHES, string: `${QUOTES}|${BACKTICKS}`, keywords: words(
    "func package import var const type struct interface map chan go defer if else for range " +
    "switch case default break continue return select nil true false string int error bool")},
  sh: {comment: String.raw`(?<![^\s;])#[^\n]*`, string: String.raw`"(?:[^"\\]|\\[^])*"?|'[^']*'?`,
    keywords: words("if then else elif fi for in do done while until case esac function return " +
    "local export echo cd exit set source sudo")},
  sql: {comment: String.raw`--[^\n]*|\/\*[^]*?(?:\*\/|$)`, string: "'[^']*'?", fold: true,
    keywords: words("select from where and or not insert into values update set delete create " +
    "table index primary key foreign references join left right inner outer on group by order " +
    "having limit offset as distinct union all null is in like between case when then else end " +
    "alter drop add default unique exists with desc asc")},
  json: {comment: "(?!)", string: String.raw`"(?:[^"\\\n]|\\[^])*"?`,
    keywords: words("true false null")},
  yaml: {comment: HASH, string: QUOTES, keywords: words("true false null yes no")},
  css: {comment: String.raw`\/\*[^]*?(?:\*\/|$)`, string: QUOTES, keywords: words("important")},
  html: {comment: "<!--[^]*?(?:-->|$)", string: String.raw`"[^"<]*"|'[^'<]*'`,
    keywords: words("html head body div span script style link meta title p a ul ol li img h1 h2 " +
    "h3 table tr td th form input button section header footer nav main class id href src")},
};
const NAMES = {
  "c++": "c", cpp: "c", cc: "c", h: "c", hpp: "c", cuda: "c", glsl: "c", kotlin: "java",
  "c#": "java", csharp: "java", cs: "java", scala: "java", swift: "java", dart: "java",
  javascript: "js", typescript: "js", ts: "js", jsx: "js", tsx: "js", mjs: "js", py: "python",
  python3: "python", rs: "rust", golang: "go", bash: "sh", shell: "sh", zsh: "sh", console: "sh",
  jsonc: "json", yml: "yaml", toml: "yaml", ini: "yaml", dockerfile: "sh", makefile: "sh",
  scss: "css", xml: "html", svg: "html", ruby: "python", rb: "python", php: "js",
};

const compiled = new Map();

function expressionOf(name) {
  if (!compiled.has(name)) {
    const {comment, string} = LANGUAGES[name];
    compiled.set(name, new RegExp(`(${comment})|(${string})` +
      String.raw`|(\b\d[\w.]*)|([A-Za-z_][\w]*)(\s*\()?`, "g"));
  }
  return compiled.get(name);
}

function kindOf(match, language) {
  if (match[1] !== undefined) return "comment";
  if (match[2] !== undefined) return "string";
  if (match[3] !== undefined) return "number";
  const word = language.fold ? match[4].toLowerCase() : match[4];
  if (language.keywords.has(word)) return "keyword";
  return match[5] === undefined ? "" : "call";
}

// A fragment of text and spans.
export function highlight(text, languageName) {
  const out = document.createDocumentFragment();
  const name = Object.hasOwn(LANGUAGES, languageName) ? languageName
    : Object.hasOwn(NAMES, languageName) ? NAMES[languageName] : "";
  if (!name || text.length > MAX_LENGTH) {
    out.append(text);
    return out;
  }
  const language = LANGUAGES[name];
  let done = 0;
  for (const match of text.matchAll(expressionOf(name))) {
    const kind = kindOf(match, language);
    if (!kind) continue;
    const token = match[4] ?? match[0];
    out.append(text.slice(done, match.index));
    const span = document.createElement("span");
    span.className = `t-${kind}`;
    span.textContent = token;
    out.append(span);
    done = match.index + token.length;
  }
  out.append(text.slice(done));
  return out;
}
