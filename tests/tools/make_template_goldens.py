#!/usr/bin/env python3
"""Render small templates with jinja2, set up as transformers sets it up, and record what comes out.

Writes tests/goldens/text/templates.json: a list of {template, variables, output} or
{template, variables, error}. Run it after adding a template below; needs jinja2 3.1.
"""
import datetime
import json
import os

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "goldens", "text",
                   "templates.json")
NOW = datetime.datetime(2026, 11, 30, 12, 34, 56)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the model wrote; for rendering it is just a scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


V = {
    "s": "Héllo wörld, hello", "words": ["pear", "Apple", "fig", "apple"], "n": 7, "f": 2.5,
    "d": {"b": 1, "a": [1, 2.0, None, True], "C": {"x": "y"}}, "none": None, "empty": [],
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25},
               {"name": "Cy", "age": 30, "tags": []}],
    "spaced": " \t two  words\u3000\n", "html": "<a href='x'>T & \"q\"</a>", "big": 123456789,
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}],
}

TEMPLATES = [
    # White space.
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a  {%- if true -%}  b  {%- endif -%}  c",
    "  {%+ if true %}x{% endif %}\n y", "{{ 1 }}\n{{ 2 }}\n\n", "a {#- c -#} b", "a\n  {# c #}\nb",
    "{% raw %}{{ x }}{% if %}{% endraw %}\nz", "{%- raw -%}  a {{ }} {%- endraw -%}  b", "a\r\nb\rc\n",
    "{{ 'x' -}}\n  y", "x\n {{- 'y' }}", "{% if true +%}\nx{% endif %}", "\n\n{% if true %}a{% endif %}\n\n",
    "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\n", " {% set x = 1 %} {{ x }}",
    # Literals and operators.
    r"{{ 'a\n\t\x41\u00e9\'\\ \q' }}", "{{ \"it's\" ~ 1 ~ none ~ true ~ 1.50 }}", "{{ 'a' 'b' }}",
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 % -2 }}",
    "{{ 1e3 }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.123 }} {{ 0.1 + 0.2 }} {{ 1_000 }} {{ 0x1f }}",
    "{{ [1, 'a', none, true, 2.5, (1,), (), {'k': [1]}] }}", "{{ {'a': 'it\\'s', 1: \"q\\\"\", none: 'é\\n'} }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 1 == 1.0 == true }} {{ 'a' in 'cat' }} {{ 3 not in [1] }} {{ 'b' in d }}",
    "{{ not none and 5 or 6 }} {{ 0 or '' }} {{ 1 and [] }}", "{{ 'x' if n > 9 }}|{{ 'x' if n > 3 else 'y' if f else 'z' }}",
    "{{ (1, 2) + (3,) }} {{ [1] * 3 }} {{ 'ab' * 2 }} {{ 3 * 'x' }}", "{{ -n }} {{ +f }} {{ -n|abs }} {{ - 3 ** 2 }}",
    "{{ [1,2] < [1,3] }} {{ 'a' < 'B' }} {{ [1, [2]] == [1, [2.0]] }} {{ none == false }}", "{{ 1, 2 }}",
    "{{ 'abc'.upper() ~ 'X'.lower() }}", "{{ true + 1 }} {{ true == 1 }} {{ {1: 'a'}[true] }}",
    # Access and slices.
    "{{ d.b }} {{ d['a'][1] }} {{ d.a.2 }} {{ d.C.x }} {{ d.missing }} {{ d['missing'] }} {{ words[-1] }} {{ words[9] }}",
    "{{ s[1] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-3] }} {{ s[-3:] }} {{ s[1:9:3] }} {{ s[5:2] }} {{ s[::2] }}",
    "{{ words[1:] }} {{ words[::-1] }} {{ words[:2] }} {{ words[-2:] }} {{ words[5:] }} {{ words[3:0:-2] }} {{ words[-9:2] }}",
    "{{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('z') }} {{ d.get('z', 4) }} {{ d.get('b') }}",
    "{{ none.x }}", "{{ undefined_thing }}|{{ undefined_thing is defined }}", "{{ undefined_thing.x }}", "{{ d.x.y }}",
    "{{ undefined_thing + 1 }}", "{{ undefined_thing() }}", "{{ 5 in undefined_thing }} {{ undefined_thing | length }} {{ undefined_thing == undefined_other }}",
    # Statements.
    "{% for w in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'hé' %}[{{ c }}]{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in words if x|length > 4 %}{{ loop.index }}{{ x }}{% else %}b{% endfor %}",
    "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1] %}{{ x }}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", "{% if true %}{% set q = 3 %}{% endif %}{{ q }}",
    "{% set ns = namespace(a=1, b=[]) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}{% set (a, b) = 'pq' %}{{ a }}{{ b }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}{% set z | upper | trim %} q {% endset %}{{ z }}",
    "{% macro m(a, b='z', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(1, 2, 3, 4, k=5) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}|{{ m(1, 2) }}", "{% macro m() %}{{ q }}{% endmacro %}{% set q = 5 %}{{ m() }}",
    "{% macro box(t) %}[{{ t }}:{{ caller(1) }}]{% endmacro %}{% call(x) box('T') %}body{{ x }}{{ n }}{% endcall %}",
    "{% macro r(k) %}{% if k %}{{ k }}{{ r(k - 1) }}{% endif %}{% endmacro %}{{ r(4) }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m('a')|upper ~ m('b') }}",
    "{% for a in [[1, [2]], [3]] recursive %}({% if a is iterable %}{{ loop(a) }}{{ loop.depth }}{% else %}{{ a }}{% endif %}){% endfor %}",
    "{% with a = 1, b = n %}{{ a + b }}{% endwith %}{{ a }}", "{% filter upper %}x{{ s }}{% endfilter %}", "{% generation %}g{{ n }}{% endgeneration %}!",
    "{% for i in [1,2,3] %}{{ loop.cycle('a', 'b') }}{% if loop.changed(i > 1) %}!{% endif %}{% endfor %}",
    "{% for i in [1,2] %}{% for j in [3,4] %}{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set j = joiner('; ') %}{% for w in words %}{{ j() }}{{ w }}{% endfor %}{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}",
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}{% if not d %}x{% endif %}{% if empty %}y{% endif %}{% if undefined_thing %}z{% endif %}",
    "{% set d.x = 1 %}", "{{ raise_exception('boom') }}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %a %j %y %I %p %d/%m %% %Z%z %f %-d') }}",
    "{{ words.append('x') }}", "{{ words.append is defined }} {{ d.pop is defined }}", "{{ d.update({'z': 1}) }}", "{{ dict(a=1, b=none) }} {{ dict([['x', 2]]) }} {{ range(3) | list }} {{ range(5, 0, -2) | list }}",
    "{% unknown %}", "{{ x | nosuchfilter }}", "{% if false %}{{ x | nosuchfilter }}{% endif %}ok", "{{ 1 if false else 2 is nosuchtest }}", "{% if true %}{% for i in [] %}{{ i|nosuch }}{% endfor %}{% endif %}",
    "{{ (1 }}", "{{ 'open }}", "{% for x in y %}", "{% endif %}", "{{ 1 + }}", "{% break %}", "{{ [1 2] }}", "{{ {1} }}", "{# open", "{{ }}", "{% set true = 1 %}",
    # Filters.
    "{{ words | join('-') }} {{ words | join }} {{ people | join(',', attribute='name') }} {{ [1, none, 'x'] | join('|') }}",
    "{{ words | sort }} {{ words | sort(reverse=true) }} {{ words | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }}",
    "{{ words | first }} {{ words | last }} {{ empty | first }} {{ words | length }} {{ d | length }} {{ s | length }} {{ s | count }}",
    "{{ words | map('upper') | list }} {{ people | map(attribute='tags', default='no') | list }} {{ words | map('replace', 'p', 'q') | list }} {{ people | map(attribute='tags.0') | list }}",
    "{{ people | selectattr('age', 'equalto', 30) | map(attribute='name') | join(',') }} {{ people | rejectattr('tags') | list | length }} {{ people | selectattr('tags') | list | length }} {{ people | selectattr('tags', 'defined') | list | length }}",
    "{{ [1, 2, 3, 4] | select('odd') | list }} {{ [1, 0, none] | select | list }} {{ [1, 2] | reject('>', 1) | list }} {{ none | select | list }} {{ words | select('in', ['fig']) | list }}",
    "{{ [3, 1, 2] | max }} {{ words | min }} {{ [1, 2.5] | sum }} {{ people | sum(attribute='age') }} {{ people | max(attribute='age') }} {{ [] | max }}",
    "{{ words | unique | list }} {{ words | reverse | list }} {{ 'abc' | reverse }} {{ words | batch(3) | list }} {{ words | batch(3, 'x') | list }} {{ [1,2,3,4,5] | slice(2) | list }} {{ [1,2,3,4,5] | slice(3, 'f') | list }}",
    "{{ d | dictsort }} {{ d | dictsort(case_sensitive=true) }} {{ {'a': 2, 'b': 1} | dictsort(by='value', reverse=true) }} {{ d | items | list }} {{ d | list }}",
    "{% for age, group in people | groupby('age') %}{{ age }}:{{ group | map(attribute='name') | join('+') }};{% endfor %}",
    "{{ s | upper }} {{ s | lower }} {{ s | title }} {{ s | capitalize }} {{ 'straße' | upper }} {{ \"it's (a) test-case\" | title }} {{ 'ÉA' | capitalize }}",
    "[{{ spaced | trim }}] [{{ 'xxaxx' | trim('x') }}] {{ s | replace('l', 'L', 2) }} {{ 'aaa' | replace('a', '<') }} {{ 5 | string + '1' }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb\n\nc' | indent(2, true, true) }}|{{ 'a\nb' | indent('> ', first=true) }}", "{{ 'ab' | center(7) }}| {{ 'abc' | center(8) }}|",
    "{{ '42' | int + 1 }} {{ '4.7' | int }} {{ 'x' | int(9) }} {{ '0x1A' | int(base=16) }} {{ 3.99 | int }} {{ none | int }} {{ '1_0' | int }} {{ '  5 ' | int }} {{ '1.5' | float }} {{ 'z' | float(2) }} {{ 3 | float }}",
    "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ -2.5 | round(method='floor') }} {{ 1234.5 | round(-2) }} {{ 7 | round }} {{ -3 | abs }}",
    "{{ none | default('x') }} {{ undefined_thing | default('x') }} {{ '' | default('x', true) }} {{ undefined_thing | d }}| {{ 0 | default(5, boolean=true) }}",
    "{{ d | tojson }} {{ d | tojson(indent=2) }} {{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ 'é\n\"/<' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ [] | tojson(indent=1) }} {{ 1.0 | tojson }} {{ (1, 2) | tojson }} {{ {'a': {}} | tojson(indent=4) }}",
    "{{ undefined_thing | tojson }}", "{{ html | e }} {{ html | escape | escape }} {{ html | safe }} {{ html | forceescape }} {{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<b>' | safe) ~ '<i>' }} {{ ('%s' | safe) % '<' }} {{ html | striptags }}",
    "{{ '%s is %d and %.2f %5s|%-5s|%05d %x %% %r' | format('a', 3, 2.5, 'b', 'c', 42, 255, 'q') }} {{ '%(a)s' | format(a=1) }} {{ '%s' % 'x' }} {{ '%s-%s' % (1, none) }}",
    "{{ 'a b c d e f g' | truncate(8, false, '..', 0) }} {{ 'abcdefghij' | truncate(5, true) }} {{ 'short' | truncate(10) }} {{ s | wordcount }} {{ 'a b/ü?&' | urlencode }} {{ {'k 1': 'v&'} | urlencode }}",
    "{{ d | attr('items') is defined }} {{ d | attr('b') is defined }} {{ words | map('length') | sum }}", "{{ 5 | length }}", "{{ none | list }}", "{{ words | sort(attribute='x') }}{{ [1, 'a'] | sort }}", "{{ {} | first }}",
    "{% set g = words | select %}{{ g | list | length }}{{ g | list | length }}{% if [] | select %}true{% endif %}", "{{ words | map('nosuch') | list }}",
    # Tests.
    "{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is number }} {{ true is number }} {{ true is integer }} {{ f is float }} {{ n is integer }}",
    "{{ s is string }} {{ d is mapping }} {{ words is sequence }} {{ d is sequence }} {{ s is iterable }} {{ n is iterable }} {{ none is none }} {{ none is not none }} {{ undefined_thing is undefined }} {{ undefined_thing is iterable }}",
    "{{ true is true }} {{ 1 is true }} {{ false is false }} {{ true is boolean }} {{ 1 is boolean }} {{ 'a' is eq 'a' }} {{ 1 is lt 2 }} {{ 1 is ge(2) }} {{ 'x' is in ['x'] }} {{ n is sameas n }} {{ none is sameas none }}",
    "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ '1' is lower }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ ('<' | e) is escaped }} {{ not n is odd }} {{ n is not odd and true }}",
    # Methods.
    "[{{ spaced.strip() }}] [{{ spaced.lstrip() }}] [{{ spaced.rstrip() }}] {{ 'xxaxy'.strip('xy') }} {{ 'abc'.lstrip('ba') }} {{ 'abc'.rstrip('') }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'a b c'.split(maxsplit=1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }}",
    "{{ s.startswith('Hé') }} {{ s.endswith(('x', 'lo')) }} {{ s.startswith('l', 2) }} {{ s.find('l') }} {{ s.rfind('l') }} {{ s.find('zz') }} {{ s.count('l') }} {{ s.index('w') }} {{ s.find('l', 4) }}", "{{ s.index('zz') }}",
    "{{ s.replace('l', '') }} {{ s.replace('l', 'LL', 1) }} {{ 'abc'.replace('', '-') }} {{ 'x'.join(words) }} {{ '-'.join(['a', 'é']) }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}", "{{ ','.join([1]) }}",
    "{{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ 'they\\'re bill\\'s'.title() }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'ab'.ljust(4) }}| {{ 'ab'.rjust(4, '.') }} {{ 'ab'.center(5, '*') }} {{ '-5'.zfill(4) }} {{ '5'.zfill(3) }}",
    "{{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ ' \t'.isspace() }} {{ ''.isalpha() }} {{ 'aB'.islower() }} {{ 'AB1'.isupper() }} {{ '½'.isnumeric() }} {{ '½'.isdecimal() }}",
    "{{ '{} {0}'.format(1) }}", "{{ '{} {}|{:>5}|{:<4}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{!r}|{{}}'.format(1, 'b', 'c', 'd', 'e', 42, 2.345, 1234567, 255, 'q') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{a.b} {c[0]} {d[k]}'.format(a={'b': 1}, c=[2], d={'k': 3}) }} {{ '{:.3}'.format('abcdef') }} {{ '{:%}'.format(0.25) }} {{ '{:+d} {:e}'.format(5, 12345.678) }}",
    "{{ words.index('fig') }} {{ words.count('fig') }} {{ (1, 2, 1).count(1) }} {{ d.copy() == d }}", "{{ words.index('zz') }}", "{{ s.nosuch }}|{{ s.nosuch() }}", "{{ '__class__' in s }} {{ s.__class__ }}",
    # What chat templates do.
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m['content'] | trim }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{%- for message in messages %}{%- if loop.index0 % 2 == 0 and message.role != 'user' %}{{ raise_exception('roles') }}{%- endif %}\n{{- message.role ~ ': ' ~ message.content }}\n{%- endfor %}",
    "{%- set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages %}{{ loop_messages | length }}{% for m in messages | reverse %}{{ m.role }}{% endfor %}{{ messages[::-1][0].role }}",
    "{% set content = '<think>\nplan\n</think>\n\nanswer' %}{{ content.split('</think>')[-1].lstrip('\\n') }}|{{ content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}",
    "{% macro schema(p, depth=0) %}{% for k, v in p | dictsort %}{{ '  ' * depth }}{{ k }}{% if v is mapping %}:\n{{ schema(v, depth + 1) }}{% else %} = {{ v | tojson }}\n{% endif %}{% endfor %}{% endmacro %}{{ schema(d) }}",
]


def main():
    rows = []
    for text in TEMPLATES:
        row = {"template": text}
        try:
            row["output"] = environment().from_string(text).render(
                **V, add_generation_prompt=True, bos_token="<s>")
        except Exception as error:  # whatever the template trips over is the recorded result
            row["error"] = f"{type(error).__name__}: {error}"
        rows.append(row)
    with open(OUT, "w", encoding="utf-8") as file:
        json.dump({"now": "2026-11-30T12:34:56", "variables": V, "rows": rows}, file,
                  ensure_ascii=True, indent=0)
        file.write("\n")
    errors = sum("error" in row for row in rows)
    print(f"{len(rows)} templates, {errors} of them errors")


if __name__ == "__main__":
    main()
