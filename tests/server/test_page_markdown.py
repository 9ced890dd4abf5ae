"""Answers as the page shows them: Markdown, never HTML, with the drafts marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.server.scripted import ScriptedServer

if TYPE_CHECKING:
    from tests.server.browsing import Page

LINK = 'target="_blank" rel="noopener noreferrer nofollow"'


def shown(page: Page, markdown: str, origins: str = "") -> str:
    """The elements that the page makes of a text."""
    script = "const div = document.createElement('div'); showMarkdown(div, ...arguments); return div.innerHTML"
    return str(page.run(script, markdown, origins))


def code(text: str, language: str = "") -> str:
    head = f'<div><span>{language}</span><button type="button" title="Copy">Copy</button></div>'
    return f'<div class="code">{head}<pre><code>{text}</code></pre></div>'


CASES = {
    "a paragraph": ("one\ntwo", "<p>one\ntwo</p>"),
    "paragraphs": ("one\n\n\ntwo", "<p>one</p><p>two</p>"),
    "headings": ("# One\n### Three ##\n#no", "<h1>One</h1><h3>Three</h3><p>#no</p>"),
    "a heading without text": ("##", "<h2></h2>"),
    "emphasis": (
        "*a* **b** ***c*** _d_ __e__ ~~f~~",
        "<p><em>a</em> <strong>b</strong> <strong><em>c</em></strong> <em>d</em> <strong>e</strong> <del>f</del></p>",
    ),
    "emphasis in emphasis": (
        "**a *b* c** *d **e** f* *g **h***",
        "<p><strong>a <em>b</em> c</strong> <em>d <strong>e</strong> f</em> <em>g <strong>h</strong></em></p>",
    ),
    "no emphasis": ("2 * 3 * 4, snake_case_name, a**, *", "<p>2 * 3 * 4, snake_case_name, a**, *</p>"),
    "escapes": (r"\*a\* \_ \# \\ \(x\)", r"<p>*a* _ # \ \(x\)</p>"),
    "code": ("`a*b*` ``c`d`` ` e ` `f", "<p><code>a*b*</code> <code>c`d</code> <code>e</code> `f</p>"),
    "a link": ("[a *b*](http://x.y/z)", f'<p><a href="http://x.y/z" {LINK}>a <em>b</em></a></p>'),
    "a link with a title": ('[a](https://x.y "t")', f'<p><a href="https://x.y/" {LINK}>a</a></p>'),
    "brackets in a link": ("[a [b]](http://x/(c))", f'<p><a href="http://x/(c)" {LINK}>a [b]</a></p>'),
    "addresses": (
        "see http://x.y/a_b_c. (https://z/) <http://w>",
        f'<p>see <a href="http://x.y/a_b_c" {LINK}>http://x.y/a_b_c</a>. '
        f'(<a href="https://z/" {LINK}>https://z/</a>) <a href="http://w/" {LINK}>http://w</a></p>',
    ),
    "images are links": ("![a](http://x/i.png)", f'<p><a href="http://x/i.png" {LINK}>a</a></p>'),
    "other links are text": ("[a](javascript:b) [c](d) [e]", "<p>[a](javascript:b) [c](d) [e]</p>"),
    "a list": ("- a\n- b", '<ul class=""><li><p>a</p></li><li><p>b</p></li></ul>'),
    "a numbered list": ("3. a\n4. b", '<ol class="" start="3"><li><p>a</p></li><li><p>b</p></li></ol>'),
    "a loose list": ("* a\n\n* b", '<ul class="loose"><li><p>a</p></li><li><p>b</p></li></ul>'),
    "two lists": ("- a\n+ b", '<ul class=""><li><p>a</p></li></ul><ul class=""><li><p>b</p></li></ul>'),
    "a nested list": (
        "1. a\n   - b\n     1. c\n   - d\n2. e",
        '<ol class="" start="1"><li><p>a</p><ul class=""><li><p>b</p><ol class="" start="1"><li><p>c</p></li></ol></li>'
        "<li><p>d</p></li></ul></li><li><p>e</p></li></ol>",
    ),
    "a list that is nested by two columns": (
        "1. a\n  - b\n2. c",
        '<ol class="" start="1"><li><p>a</p><ul class=""><li><p>b</p></li></ul></li><li><p>c</p></li></ol>',
    ),
    "a list that is nested by tabs": (
        "- a\n\t- b\n\t\t- c",
        '<ul class=""><li><p>a</p><ul class=""><li><p>b</p><ul class=""><li><p>c</p></li></ul></li></ul></li></ul>',
    ),
    "a list with code": (
        "- a\n  ```c\n  x\n    y\n  ```\n- b",
        '<ul class=""><li><p>a</p>' + code("x\n  y", "c") + "</li><li><p>b</p></li></ul>",
    ),
    "a list after a paragraph": ("a\n- b\n\nc", '<p>a</p><ul class=""><li><p>b</p></li></ul><p>c</p>'),
    "a line that goes on with an item": ("- a\nb", '<ul class=""><li><p>a\nb</p></li></ul>'),
    "a number is no list": ("in\n1984. Yes", "<p>in\n1984. Yes</p>"),
    "tasks": (
        "- [x] a\n- [ ] b",
        '<ul class=""><li class="task"><input type="checkbox" disabled="" checked=""><p>a</p></li>'
        '<li class="task"><input type="checkbox" disabled=""><p>b</p></li></ul>',
    ),
    "a quote": ("> a\n> > b\nc", "<blockquote><p>a</p><blockquote><p>b\nc</p></blockquote></blockquote>"),
    "rules": ("---\n* * *\n___", "<hr><hr><hr>"),
    "a fence": ("```\n<b>\n\n# a\n```\nb", code("&lt;b&gt;\n\n# a") + "<p>b</p>"),
    "a fence in a fence": ("~~~~md\n~~~\na\n~~~\n~~~~", code("~~~\na\n~~~", "md")),
    "a fence without its end": ("a\n```\nb\n``", "<p>a</p>" + code("b\n``")),
    "code by its indentation": ("a\n\n    b\n\n      c\nd", "<p>a</p>" + code("b\n\n  c") + "<p>d</p>"),
    "coloured code": (
        "```python\nif x == 1:  # \"y\"\n    z = 's'\n```",
        code(
            '<span class="keyword">if</span> x == <span class="number">1</span>:  <span class="comment"># "y"</span>\n'
            "    z = <span class=\"string\">'s'</span>",
            "python",
        ),
    ),
    "a table": (
        "| a | b |\n|:-:|--:|\n| `c` | d \\| e | f |\n| g |",
        '<div class="scroll"><table><thead><tr><th style="text-align: center;">a</th>'
        '<th style="text-align: right;">b</th></tr></thead><tbody><tr>'
        '<td style="text-align: center;"><code>c</code></td><td style="text-align: right;">d | e</td></tr><tr>'
        '<td style="text-align: center;">g</td><td style="text-align: right;"></td></tr></tbody></table></div>',
    ),
    "a table after a paragraph": (
        "a\nb | c\n-|-\nd | e\n\nf",
        '<p>a</p><div class="scroll"><table><thead><tr><th>b</th><th>c</th></tr></thead><tbody>'
        "<tr><td>d</td><td>e</td></tr></tbody></table></div><p>f</p>",
    ),
    "no table": ("a | b\n---", "<p>a | b</p><hr>"),
    "line breaks": ("a<br>b<BR />c", "<p>a<br>b<br>c</p>"),
    "other HTML is text": ("<b>a</b> &lt; &", "<p>&lt;b&gt;a&lt;/b&gt; &amp;lt; &amp;</p>"),
    "lines of Windows": ("a\r\n\r\n- b\r\n", '<p>a</p><ul class=""><li><p>b</p></li></ul>'),
}


def test_markdown(page: Page) -> None:
    found = {name: shown(page, markdown) for name, (markdown, _) in CASES.items()}
    assert found == {name: html for name, (_, html) in CASES.items()}


ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](java\tscript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "[a](vbscript:x) [a](file:///etc/passwd) [a](blob:x)",
    "<javascript:alert(1)>",
    '[a](http://x/"onmouseover="alert(1))',
    'http://x/"onmouseover="alert(1)',
    "![a](javascript:alert(1))",
    "```<script>alert(1)</script>\n<script>alert(1)</script>\n```",
    "``` \"onclick='alert(1)'\nx\n```",
    "| <script>alert(1)</script> | b |\n|---|---|\n| <img src=x onerror=alert(1)> | `<svg onload=alert(1)>` |",
    "- [x] <input autofocus onfocus=alert(1)>",
    "# <a href='javascript:alert(1)'>x</a>",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "<style>*{display:none}</style><base href=//x><meta http-equiv=refresh content=0>",
]


def test_attacks_are_text(page: Page, scripted_server: ScriptedServer) -> None:
    """In an answer, a question, its title, and the name of a file."""
    page.run("window.alert = () => { document.title = 'hacked' }")
    allowed = "a blockquote br button code del div em h1 hr input li ol p pre span strong table tbody td th thead tr ul"
    attributes = "checked class disabled href rel start style target title type"
    script = """const found = [...document.querySelectorAll('.message .text *, #list .title *')];
      return [found.map((one) => one.localName), found.flatMap((one) => one.getAttributeNames()),
              [...document.links].map((one) => one.protocol)].map((list) => [...new Set(list)])"""
    for attack in ATTACKS:
        scripted_server.say(attack)
        page.ask(attack)
        assert page.texts(".user > .text")[-1] == attack
    tags, names, protocols = page.run(script)
    assert set(tags) <= set(allowed.split()) and set(names) <= set(attributes.split())
    assert set(protocols) == {"http:"}
    assert page.titles() == [ATTACKS[0]]
    text = page.text("#messages")
    assert "<script>alert(1)</script>" in text and "<img src=x onerror=alert(1)>" in text
    assert page.run("return document.title") == f"{ATTACKS[0]} – specdec"


def test_html_cannot_be_made_at_all(page: Page) -> None:
    """By the security policy, whatever the script did."""
    script = "try { document.body.innerHTML = '<b>x</b>'; return 'made' } catch (error) { return error.name }"
    assert page.run(script) == "TypeError"
    assert any("TrustedHTML" in error for error in page.errors())


SAMPLE = """Here is **a sort**:

```python
def f(x):
    return [x]  # a list
```

1. one
   - *inner*

   more
2. two `code` and [a link](http://x.y/z)

| a | b |
|---|---|
| 1 | **2** |
| 3 | 4 |

> quoted
> - item

- [x] done
- [ ] open

***

The `end`, http://x.y.
"""


def test_every_beginning_of_an_answer_is_shown(page: Page) -> None:
    """As it grows letter by letter, and as if it had been that short from the start."""
    script = """const [text] = arguments, grown = document.createElement('div'), different = [];
      for (let end = 0; end <= text.length; ++end) {
        const fresh = document.createElement('div');
        showMarkdown(fresh, text.slice(0, end), '');
        showMarkdown(grown, text.slice(0, end), '');
        if (fresh.innerHTML !== grown.innerHTML) different.push(end);
      }
      return [different, grown.innerHTML]"""
    different, html = page.run(script, SAMPLE)
    assert different == []
    assert html == shown(page, SAMPLE) and html.count("<table>") == 1 and html.count("<li") == 6


def test_a_fence_is_code_while_it_grows(page: Page, scripted_server: ScriptedServer) -> None:
    """And what is above it stays the same element, with what is selected in it."""
    scripted_server.say("First *words*.\n\n```c\nint x", ends=False)
    page.send("code")
    page.wait(lambda: page.text(".assistant pre") == "int x")
    page.run("window.first = document.querySelector('.assistant p'); getSelection().selectAllChildren(first)")
    scripted_server.say(" = 1;\n", "```\nafter", ends=False)
    page.wait(lambda: page.texts(".assistant > .text > p") == ["First words.", "after"])
    assert page.text(".assistant pre") == "int x = 1;"
    assert page.run("return first.isConnected && getSelection().toString()") == "First words."
    scripted_server.say()
    page.wait(page.is_idle)


def test_code_is_copied(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("```python\nx = 1\n\n<b>\n```\n")
    page.ask("code")
    page.click(".code button")
    page.wait(lambda: page.text(".code button") == "Copied")
    script = "navigator.clipboard.readText().then(arguments[0])"
    assert page.browser.execute_async_script(script) == "x = 1\n\n<b>"
    page.click(".assistant [aria-label='Copy the answer']")
    page.wait(lambda: page.shows("#toast"))
    assert page.browser.execute_async_script(script) == "```python\nx = 1\n\n<b>\n```\n"


def test_drafts_are_marked_wherever_they_end_up(page: Page, scripted_server: ScriptedServer) -> None:
    pieces = [
        ("A **bo", "model"),
        ("ld** wo", ""),
        ("rd.\n\n```py\nif", "suffix"),
        (" x:\n", "model"),
        ("  y\n```", ""),
    ]
    scripted_server.say(*pieces, ("\n\n1. en", "constraint"), ("d", "ngram"))
    page.ask("mark")
    assert page.run("return Array.from(document.querySelectorAll('.text .model'), (e) => e.textContent)") == [
        "A ",
        "bo",
        " x:\n",
    ]
    assert page.run("return Array.from(document.querySelectorAll('.text .copy'), (e) => e.textContent)") == [
        "rd.",
        "if",
        "d",
    ]
    assert page.texts(".text .forced") == ["en"]
    colour = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
    kinds = (".text .model", ".text .copy", ".text .forced", ".text li")
    assert len({page.run(colour, kind) for kind in kinds}) == 1 and not page.shows("#legend")
    page.click("#show")
    assert len({page.run(colour, kind) for kind in kinds}) == 4
    assert [page.run(colour, f"#legend {kind.split()[1]}") for kind in kinds[:3]] == [
        page.run(colour, kind) for kind in kinds[:3]
    ]
    assert page.shows("#legend") and "draft model" in page.text("#legend")
    page.reload()  # the marks and the switch are kept
    assert page.shows("#legend") and page.texts(".text .forced") == ["en"]


def test_texts_that_would_take_long(page: Page) -> None:
    """Marks that nothing closes, and deep nesting: seconds, on a busy machine too, not minutes."""
    many = 20_000
    hostile = ["*a " * many, "[" * many, "`" * many + "a", "> " * many + "a", "**a _b " * many, "a`" * many]
    hostile += ["# " + " " * many + "#" * many + " a", "- " * many, "|" * many + "\n" + "|-" * many, "<" * many]
    hostile += [
        "[a](" * many,
        "\\" * many,
        "http://x" * many,
        "~~" * many,
        "\n".join([" " * 4 + "- a"] * 200),
        "_" * many,
    ]
    for text in hostile:
        script = "const start = performance.now(); showMarkdown(document.createElement('div'), arguments[0], ''); "
        assert page.run(script + "return performance.now() - start", text) < 10_000, text[:20]
