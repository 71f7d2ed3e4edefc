// The expected texts are those of Jinja 3.1.6 in the environment of transformers 5 (ImmutableSandboxedEnvironment).
#include "text/jinja.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/error.h"
#include "support/paths.h"

namespace zt::text {
namespace {

const Jinja::Variables& variables() {
  static const auto kVariables = Jinja::Variables::parse(R"--({
    "n": null, "t": true, "f": false, "i": 3, "neg": -7, "r": 2.5, "s": " a b  c ", "z": "",
    "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": {"x": [1, "y", null, 2.0]}},
    "m": [{"role": "system", "content": "S", "k": 1}, {"role": "user", "content": "U", "k": 3},
          {"role": "assistant", "content": "A", "k": 2}, {"role": "user", "content": "u2"}],
    "u": "äß日", "q": "it's \"q\"\n\t\\", "h": "a-b (c d"})--");
  return kVariables;
}

struct Case {
  std::string source, result;
};

void expect(const std::vector<Case>& cases) {
  for (const auto& [source, result] : cases) {
    CAPTURE(source);
    try {
      CHECK(Jinja::parse(source).render(variables()) == result);
    } catch (const Error& e) {
      FAIL_CHECK(e.what());
    }
  }
}

// The error's text, or what was rendered instead.
std::string fault_of(const std::string& source, const JinjaLimits& limits = {}) {
  try {
    return "rendered: " + Jinja::parse(source).render(variables(), limits);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::model);
    return e.what();
  }
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("jinja: 31 published chat templates render their published texts") {
  const auto path = test::test_data("vectors/chat_templates.json");
  if (!path) return;
  const auto cases = Jinja::Variables::parse(test::read_file(*path));
  REQUIRE(cases.size() == 31);
  // One of them prints the date; its text was made on this day.
  const std::string made = "10 July 2025";
  const std::string today = Jinja::parse("{{ strftime_now('%d %B %Y') }}").render(Jinja::Variables::object());
  for (const auto& one : cases) {
    CAPTURE(one["name"].get<std::string>());
    const auto source = one["chat_template"].get<std::string>();
    auto target = one["target"].get<std::string>();
    const std::size_t date = target.find(made);
    if (source.find("strftime_now") != std::string::npos && date != std::string::npos)
      target.replace(date, made.size(), today);
    CHECK(Jinja::parse(source).render(one["data"]) == target);
  }
}

TEST_CASE("jinja: operators, literals, elements and printing as in Jinja") {
  expect({
      {"{{ 1 + 2 * 3 - 4 // 3 }}|{{ 7 % 3 }}|{{ -7 % 3 }}|{{ -7 // 2 }}|{{ 7 / 2 }}|{{ 6 / 2 }}|{{ 2 ** 3 ** "
       "2 }}|{{ 2 ** 0 }}",
       "6|1|2|-4|3.5|3.0|64|1"},
      {"{{ 1.5 + 1 }} {{ 1e20 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.123 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 "
       "}} {{ 1e22 * 3 }}",
       "2.5 1e+20 1e+16 1000000000000000.0 123456789.123 0.0001 1e-05 1.0 3e+22"},
      {"{{ true + 1 }} {{ true and 0 or 'x' }} {{ not 1 }} {{ 1 if f }} {{ 1 if f else 2 if t else 3 }}",
       "2 x False  2"},
      {"{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ l ~ missing }}", "a1NoneTrue1.5[3, 1, 2]"},
      {"{{ 'a' 'b' \"c\" }} {{ 'x\\ty\\\\n\\'\\x41\\u00e4\\101\\q' }} {{ \"a\\\nb\" }}",
       "abc x\ty\\n'AäA\\q ab"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} "
       "{{ (1,2) == [1,2] }} {{ 'a' == 1 }}",
       "True False True True True True False False"},
      {"{{ 1 in [1,2] }} {{ 3 not in [1,2] }} {{ 'b' in d }} {{ 'x' in 'xyz' }} {{ '' in 'x' }} {{ not 'x' "
       "in 'abc' }} {{ 1 in missing }}",
       "True True True True True True False"},
      {"{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ s[1] }} {{ u[1] }} {{ u[-1] }} {{ d['b'] }} {{ d.b }} {{ "
       "d.a.x[1] }} {{ d['a']['x'][-1] }} {{ d.nope }} {{ l.0 }} {{ l[true] }}",
       "3 2  a ß 日 1 1 y 2.0  3 1"},
      {"{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ u[::-1] }} {{ u[1:2] }} {{ l[5:] }} {{ l[-2:] "
       "}} {{ l[2:0:-1] }} {{ (1,2,3)[1:] }} {{ s[:] }} {{ l[none:2] }}",
       "[1, 2] [3, 1] [2, 1, 3] [3, 2] 日ßä ß [] [1, 2] [2, 1] (2, 3)  a b  c  [3, 1]"},
      {"{{ [] }} {{ [1] }} {{ (1,) }} {{ () }} {{ {} }} {{ {'a': 1, 2: [none, true], 'x': 'it\\'s'} }} {{ "
       "[1.0, 'a\\n'] }} {{ [missing] }} {{ ['\"', \"'\", '\"\\''] }}",
       "[] [1] (1,) () {} {'a': 1, 2: [None, True], 'x': \"it's\"} [1.0, 'a\\n'] [Undefined] ['\"', \"'\", "
       "'\"\\'']"},
      {"{{ {'a': 1, 'a': 2, 1: 'x', true: 'y'} }}", "{'a': 2, 1: 'y'}"},
      {"{{ l.append }}x", "x"},
      {"{{ 'a' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ 'a' * -1 }} {{ [1] + [2] }} {{ (1,) + (2,) }}",
       "aaa ababab [1, 1]  [1, 2] (1, 2)"},
      {"{{ -i }} {{ +i }} {{ - -i }} {{ -r }} {{ not not i }} {{ -true }} {{ 2 - -3 }} {{ --3 }}",
       "-3 3 3 -2.5 True -1 5 3"},
      {"{{ 1 - 2 - 3 }} {{ 2 * 3 % 4 }} {{ 100 // 7 // 2 }} {{ 1 < 2 == true }} {{ (1 < 2) == true }}",
       "-4 2 7 False True"},
      {"{{ [1, 2, 3,] }} {{ (1, 2,) }} {{ {'a': 1,} }} {{ dict(a=1,) }}",
       "[1, 2, 3] (1, 2) {'a': 1} {'a': 1}"},
      {"{{ loop }}", ""},
      {"{{ 1, 2 }} {{ 1, }}", "(1, 2) (1,)"},
      {"{{ {'keys': 5, 'items': 6}['keys'] }} {{ {'content': 1}.content }}", "5 1"},
      {"{{ d == {'a': {'x': [1,'y',none,2]}, 'b': 1} }} {{ [1,[2]] == [1,[2.0]] }} {{ none == false }} {{ "
       "none == missing }} {{ '' == missing }} {{ 0 == false }} {{ '1' == 1 }}",
       "True True False False False True False"},
      {"{{ 9223372036854775807 }} {{ 9223372036854775807 - 1 }} {{ 9007199254740993 == 9007199254740992.0 }}",
       "9223372036854775807 9223372036854775806 False"},
      {"{{ true }}{{ True }}{{ none }}{{ None }}{{ false }}{{ False }}", "TrueTrueNoneNoneFalseFalse"},
      {"{{ 2.0 ** 3 }} {{ 4 ** 0.5 }}", "8.0 2.0"},
      {"x\n", "x"},
      {"x\n\n", "x\n"},
      {"\n", ""},
      {"{{ 1 }}\n{{ 2 }}\n", "1\n2"},
      {"a{{ 1 }}\nb", "a1\nb"},
  });
}

TEST_CASE("jinja: tests as in Jinja") {
  expect({
      {"{{ missing }}|{{ missing == missing }}|{{ missing is defined }}|{{ not missing }}|{{ missing | "
       "length }}|{{ missing | list }}",
       "|True|False|True|0|[]"},
      {"{{ 'x'.nope }}|{{ 'x'.nope is defined }}|{{ n.foo is defined }}|{{ i.foo }}|{{ d.a.nope is none }}",
       "|False|False||False"},
      {"{{ i is number }} {{ i is integer }} {{ r is float }} {{ t is boolean }} {{ t is integer }} {{ t is "
       "number }} {{ t is true }} {{ f is false }} {{ 1 is true }} {{ n is none }} {{ s is string }} {{ d is "
       "mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ i is sequence }} {{ "
       "d.items() is sequence }} {{ l is iterable }} {{ i is iterable }} {{ missing is iterable }} {{ "
       "missing is sequence }} {{ range is callable }} {{ missing is undefined }}",
       "True True True True False True True True False True True True True True True False False True False "
       "True True True True"},
      {"{{ i is odd }} {{ i is even }} {{ 6 is divisibleby 3 }} {{ i is eq 3 }} {{ i is equalto(3) }} {{ i "
       "is ne 4 }} {{ i is gt 2 }} {{ i is ge(3) }} {{ i is lt 2 }} {{ i is le 3 }} {{ i is not none }} {{ 1 "
       "is in [1] }} {{ n is sameas none }} {{ neg is odd }} {{ i is defined and t }} {{ i is string or t }} "
       "{{ 'a' is in d }} {{ neg is even }} {{ i is not number and t }}",
       "True False True True True True True True False True True True True True True True True False False"},
      {"{{ \"x\" if missing is defined and missing.y else \"n\" }} {{ missing and missing.x }} {{ (missing "
       "or 'o') }} {{ 1 or missing.x }}",
       "n  o 1"},
      {"{{ m[0].content + m[1]['content'] }} {{ m[-1].k is defined }} {{ m[0]['role'] == 'system' and m | "
       "length > 2 }}",
       "SU False True"},
      {"{{ ns }}{{ 1 if true }}{{ (1 if false) is defined }}", "1False"},
      {"{{ 'abc'[1:]|upper }} {{ ('a' ~ 'b')|upper }} {{ 'a' + 'b'|upper }} {{ d.a['x']|length }} {{ "
       "l|length > 2 }} {{ l | length is odd }}",
       "BC AB aB 4 True True"},
      {"{{ \"a\" is lt \"b\" }}{{ u.split('ß') | join('|') }}{{ '\\u2003x\\u00a0'.strip() }}{{ '\\x1fx' | "
       "trim }}",
       "Trueä|日xx"},
      {"{{ 'abc' is string and 'b' in 'abc' and not ('z' in 'abc') }}", "True"},
      {"{{ dict(a=1).a }}{{ namespace(a=1).a }}{{ {}.x is defined }}{{ 'x'.join('abc') }}{{ 'a'.join(d) }}{{ "
       "','.join(l | map('string')) }}",
       "11Falseaxbxcbaa3,1,2"},
  });
}

TEST_CASE("jinja: filters as in Jinja") {
  expect({
      {"{{ s | trim }}|{{ s | length }}|{{ u | length }}|{{ l | length }}|{{ d | length }}|{{ n | trim }}|{{ "
       "'xxaxx' | trim('x') }}",
       "a b  c|8|3|3|2|None|a"},
      {"{{ l | join(', ') }} {{ l | join }} {{ 'abc' | join('-') }} {{ m | join(',', attribute='role') }} {{ "
       "d | join('+') }} {{ missing | join('x') }}",
       "3, 1, 2 312 a-b-c system,user,assistant,user b+a "},
      {"{{ missing | default('x') }} {{ z | default('x') }} {{ z | default('x', true) }} {{ z | d('y', "
       "boolean=true) }} {{ n | default('q') }} {{ missing | default }}",
       "x  x y None "},
      {"{{ l | first }} {{ l | last }} {{ [] | first }} {{ 'abc' | first }} {{ 'abc' | last }} {{ d | first "
       "}} {{ d | last }}",
       "3 2  a c b a"},
      {"{{ m | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(',') }} {{ m | "
       "rejectattr('role', 'in', ['user']) | list | length }} {{ m | selectattr('k') | list | length }} {{ m "
       "| selectattr('k', 'defined') | map(attribute='k') | list }}",
       "U,u2 2 3 [1, 3, 2]"},
      {"{{ l | select('odd') | list }} {{ l | reject('gt', 1) | list }} {{ [0,1,'',none,'x'] | select | list "
       "}} {{ [1,none] | reject('none') | list }}",
       "[3, 1] [1] [1, 'x'] [1]"},
      {"{{ w | map('upper') | list }} {{ w | map('replace', 'a', 'q') | join }} {{ m | map(attribute='k', "
       "default=0) | list }} {{ [[1,2],[3]] | map('first') | list }} {{ m | map(attribute='k') | list }}",
       "['B', 'A', 'C', 'A'] bAcq [1, 3, 2, 0] [1, 3] [1, 3, 2, Undefined]"},
      {"{{ ([1] | map('string'))[0] }}", ""},
      {"{{ w | sort }} {{ w | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ m[:3] | "
       "sort(attribute='k') | map(attribute='role') | list }} {{ d | dictsort }} {{ {'b': 1, 'A': 2} | "
       "dictsort(true) }} {{ {'x': 2, 'y': 1} | dictsort(by='value') }} {{ {'x': 2, 'y': 1} | "
       "dictsort(reverse=true) }}",
       "['A', 'a', 'b', 'c'] ['A', 'a', 'b', 'c'] [3, 2, 1] ['system', 'assistant', 'user'] [('a', {'x': [1, "
       "'y', None, 2.0]}), ('b', 1)] [('A', 2), ('b', 1)] [('y', 1), ('x', 2)] [('y', 1), ('x', 2)]"},
      {"{{ w | unique | list }} {{ [1,1.0,2,true] | unique | list }} {{ w | unique(case_sensitive=true) | "
       "list }} {{ l | max }} {{ l | min }} {{ w | max }} {{ m[:3] | max(attribute='k') }} {{ [] | max }} {{ "
       "l | sum }} {{ m[:3] | sum(attribute='k') }}",
       "['b', 'A', 'c'] [1, 2] ['b', 'A', 'c', 'a'] 3 1 c {'role': 'user', 'content': 'U', 'k': 3}  6 6"},
      {"{{ l | reverse | list }} {{ 'abc' | reverse }} {{ d | reverse | list }} {{ -3 | abs }} {{ -2.5 | abs "
       "}} {{ (-3) | abs }}",
       "[2, 1, 3] cba ['a', 'b'] 3 2.5 3"},
      {"{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 5 | round }} {{ 1.2 | "
       "round(method='ceil') }} {{ 1.29 | round(1, 'floor') }} {{ 0.5 | round }} {{ 1.05 | round(1) }}",
       "2.0 4.0 2.67 5 2.0 1.2 0.0 1.1"},
      {"{{ '42' | int }} {{ ' -7 ' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '4.9' | int }} {{ 4.9 | "
       "int }} {{ none | int }} {{ true | int }} {{ '+3' | int }} {{ '1e3' | int }} {{ '--1' | int }} {{ '' "
       "| int }} {{ [] | int }}",
       "42 -7 0 5 4 4 0 1 3 1000 0 0 0"},
      {"{{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ 'x' | float(1) }} {{ '.5' | float }} {{ "
       "'5.' | float }} {{ '+-5' | float }}",
       "1.5 0.0 3.0 1 0.5 5.0 0.0"},
      {"{{ d | tojson }} {{ l | tojson }} {{ 'ä\"\\n<&\\'\\x01\\x7f/' | tojson }} {{ none | tojson }} {{ 1.0 "
       "| tojson }} {{ (1,2) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ [] | "
       "tojson(indent=2) }} {{ {} | tojson(indent=2) }}",
       "{\"b\": 1, \"a\": {\"x\": [1, \"y\", null, 2.0]}} [3, 1, 2] \"ä\\\"\\n<&'\\u0001/\" null 1.0 [1, "
       "2] "
       "{\"1\": 4, \"null\": 3, \"1.5\": 5} [] {}"},
      {"{{ d | tojson(indent=2) }} {{ d | tojson(indent='--') }} {{ d | tojson(separators=(',', ':')) }} {{ "
       "d | tojson(sort_keys=true) }} {{ d | tojson(indent=0) }} {{ d | tojson(indent=none) }} {{ "
       "[[1,[2]],{'a':[]}] | tojson(indent=4) }}",
       "{\n  \"b\": 1,\n  \"a\": {\n    \"x\": [\n      1,\n      \"y\",\n      null,\n      2.0\n    ]\n  "
       "}\n} {\n--\"b\": 1,\n--\"a\": {\n----\"x\": "
       "[\n------1,\n------\"y\",\n------null,\n------2.0\n----]\n--}\n} "
       "{\"b\":1,\"a\":{\"x\":[1,\"y\",null,2.0]}} {\"a\": {\"x\": [1, \"y\", null, 2.0]}, \"b\": 1} "
       "{\n\"b\": 1,\n\"a\": {\n\"x\": [\n1,\n\"y\",\nnull,\n2.0\n]\n}\n} {\"b\": 1, \"a\": {\"x\": [1, "
       "\"y\", null, 2.0]}} [\n    [\n        1,\n        [\n            2\n        ]\n    ],\n    {\n       "
       " \"a\": []\n    }\n]"},
      {"{{ 'a\\nb\\n\\nc' | indent }} {{ 'a\\nb\\n\\nc' | indent(2, true) }} {{ 'a\\nb\\n\\nc' | indent(2, "
       "first=true, blank=true) }} {{ 'a\\n\\nb' | indent('> ') }} {{ '' | indent }} {{ 'a\\n' | indent }}",
       "a\n    b\n\n    c   a\n  b\n\n  c   a\n  b\n  \n  c a\n\n> b  a\n"},
      {"{{ 12 | string + 'x' }} {{ [1,2] | string }} {{ 'abc' | list }} {{ d | list }} {{ 'x' | safe }} {{ "
       "'a<b' | safe }}",
       "12x [1, 2] ['a', 'b', 'c'] ['b', 'a'] x a<b"},
      {"{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }} {{ "
       "range(3) | length }} {{ range(5)[1] }} {{ range(5)[-1] }} {{ 2 in range(3) }} {{ range(3)[1:] | list "
       "}} {{ range(1,10,4)|list }} {{ range(10,1,-4)|list }} {{ range(3,1)|list }}",
       "[0, 1, 2] [1, 2, 3] [5, 3, 1] [] 3 1 4 True [1, 2] [1, 5, 9] [10, 6, 2] []"},
      {"{{ dict(a=1, b=2) }} {{ dict([('a', 1)]) }} {{ dict(d, c=3) | length }} {{ dict() }}",
       "{'a': 1, 'b': 2} {'a': 1} 3 {}"},
      {"{{ q }} {{ [q] }} {{ q | tojson }}",
       "it's \"q\"\n\t\\ ['it\\'s \"q\"\\n\\t\\\\'] \"it's \\\"q\\\"\\n\\t\\\\\""},
      {"{{ l | sort | first }}{{ l | map('string') | sort | join('') }}{{ l|tojson|length }}", "11239"},
      {"{{ 'a\\r\\nb' }}{{ 'x\\0y'|length }}", "a\r\nb3"},
      {"{{ u | tojson }}{{ {'ü': 'ö'} | tojson }}", "\"äß日\"{\"ü\": \"ö\"}"},
      {"{{ (l | reverse) | first }} {{ l | first | string | int + 1 }} {{ 'A'.lower() == 'a' | lower }}",
       "2 4 True"},
      {"{{ l|join(',')|replace(',', ';')|trim|upper|length }}{{ m|map(attribute='content')|join('')|lower }}",
       "5suau2"},
      {"{{ m | map(attribute='content') | map('lower') | select('ne', 's') | list | tojson }}",
       "[\"u\", \"a\", \"u2\"]"},
  });
}

TEST_CASE("jinja: methods as in Jinja") {
  expect({
      {"{{ 'aBc' | upper }} {{ 'aBc' | lower }} {{ 'aBC d' | capitalize }} {{ \"ab-cd (ef 1gh\" | title }} "
       "{{ \"ab-cd (ef 1gh x's\".title() }} {{ 'ab CD'.capitalize() }} {{ none | upper }}",
       "ABC abc Abc d Ab-Cd (Ef 1gh Ab-Cd (Ef 1Gh X'S Ab cd NONE"},
      {"{{ 'aXbX' | replace('X', 'y') }} {{ 'aXbX' | replace('X', 'y', 1) }} {{ 'aXbX'.replace('X', '', 1) "
       "}} {{ 12 | replace(1, 3) }}",
       "ayby aybX abX 32"},
      {"{{ d | items | list }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ "
       "d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ missing | items | list }}",
       "[('b', 1), ('a', {'x': [1, 'y', None, 2.0]})] [('b', 1), ('a', {'x': [1, 'y', None, 2.0]})] ['b', "
       "'a'] [1, {'x': [1, 'y', None, 2.0]}] 1 None 5 []"},
      {"{{ 'a,b,,c'.split(',') }} {{ s.split() }} {{ 'a,b,c'.split(',', 1) }} {{ s.split(none, 1) }} {{ "
       "''.split() }} {{ ''.split(',') }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b'.split(' ') }} {{ "
       "'aXXb'.split('XX') }} {{ ' a  b '.split(maxsplit=1) }} {{ 'abc'.split(sep='b') }}",
       "['a', 'b', '', 'c'] ['a', 'b', 'c'] ['a', 'b,c'] ['a', 'b  c '] [] [''] ['a,b', 'c'] ['a', 'b'] "
       "['a', 'b'] ['a', 'b '] ['a', 'c']"},
      {"{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xyax'.strip('xy') }}|{{ 'xax'.lstrip('x') "
       "}}|{{ 'xax'.rstrip('x') }}|{{ 'äaä'.strip('ä') }}|{{ 'x'.strip('') }}|{{ 'x '.strip(none) }}",
       "a b  c|a b  c | a b  c|a|ax|xa|a|x|x"},
      {"{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x','c')) }} {{ 'abc'.startswith('') }} {{ "
       "'abc'.upper() }} {{ 'ABC'.lower() }} {{ 'abc'.find('c') }} {{ 'äbc'.find('c') }} {{ 'abc'.find('z') "
       "}} {{ '-'.join(['a','b']) }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'abc'.removeprefix('a') }} {{ "
       "'abc'.removesuffix('c') }}",
       "True True True ABC abc 2 2 -1 a-b ['a', 'b', 'c'] bc ab"},
      {"{{ {'items': 6}.items() | list }}", "[('items', 6)]"},
      {"{{ 'a b'.split()[0] }}{{ 'k=v'.split('=')[-1].upper() }}{{ ('a', 'b') | join }}{{ "
       "'abc'|list|reverse|join }}{{ 'x\\n'.rstrip('\\n') ~ '|' }}",
       "aVabcbax|"},
  });
}

TEST_CASE("jinja: loops and conditions as in Jinja") {
  expect({
      {"{% if [] | select('odd') %}gen truthy{% else %}no{% endif %} {% if [1] | map('string') %}T{% endif "
       "%}",
       "gen truthy T"},
      {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ "
       "loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ x }};{% endfor %}",
       "10TrueFalse33213;21FalseFalse321321;32FalseTrue31012;"},
      {"{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{{ loop.nextitem }}{{ x "
       "}};{% else %}none{% endfor %} {% for x in [] %}{% else %}empty{% endfor %} {% for x in l if x > 5 "
       "%}{{ x }}{% else %}none{% endfor %}",
       "1/2False23;2/2True2; empty none"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k, v in d | items %}{{ k }},{% endfor "
       "%} {% for k in d %}{{ k }}{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% "
       "endfor %} {% for (a, b) in [[1,2]] %}{{ a+b }}{% endfor %}",
       "b=1;a={'x': [1, 'y', None, 2.0]}; b,a, ba 123 3"},
      {"{% for x in missing %}{% else %}E{% endfor %}{% for c in u %}{{ c }}.{% endfor %}", "Eä.ß.日."},
      {"{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 2 %}{% break %}{% endif %}{{ x "
       "}}{% endfor %}",
       "3"},
      {"{% for x in [1,2] %}{% for y in [3,4] %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
       "121;122;"},
      {"{% for x in [1,2,3,4] %}{{ loop.cycle('a', 'b') }}{{ loop['index'] }}{% endfor %}", "a1b2a3b4"},
      {"{% if z %}a{% elif n %}b{% elif l %}c{% else %}d{% endif %}{% if n is none: %}colon{% endif %}",
       "ccolon"},
      {"{% for m in m %}{{ m.role }}{% endfor %}{{ m | length }}", "systemuserassistantuser4"},
      {"{% if not (m[0].role == 'x') and (m | length) > 1 or f %}ok{% endif %}{{ (1, 2)[0] }}{{ [[1]][0][0] "
       "}}{{ {'a': [5]}['a'][0] }}",
       "ok115"},
      {"  {% if t %}a{% endif %}", "a"},
      {"\302\240{% if t %}\302\240x{% endif %}", "\302\240x"},
      {"{% for x in l %}\n  {{ x }}\n{% endfor %}\n", "  3\n  1\n  2\n"},
  });
}

TEST_CASE("jinja: the else of a loop runs unless a round comes to the end of the body, as in Jinja") {
  expect({
      {"{% for x in l %}{{ x }}{% else %}E{% endfor %}", "312"},
      {"{% for x in l %}{{ x }}{% continue %}{% else %}E{% endfor %}", "312E"},
      {"{% for x in l %}{{ x }}{% break %}{% else %}E{% endfor %}", "3E"},
      {"{% for x in l %}{% if loop.last %}{% break %}{% endif %}{{ x }}{% else %}E{% endfor %}", "31"},
  });
}

TEST_CASE("jinja: variables live where Jinja keeps them as in Jinja") {
  expect({
      {"{% set x = 1 %}{% for y in l %}{% set x = y %}{{ x }}{% endfor %}{{ x }} {% if t %}{% set x = 9 %}{% "
       "endif %}{{ x }} {% for y in l %}{{ x }}{% set x = x + 1 %}{% endfor %}",
       "3121 9 999"},
      {"{% set ns = namespace(a=1, b=[]) %}{% for y in l %}{% set ns.a = ns.a + y %}{% set ns.b = ns.b + [y] "
       "%}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.nope }}{{ ns['a'] }}",
       "7[3, 1, 2]7"},
      {"{% set ns = namespace({'a': 2}, c=3) %}{{ ns.a }}{{ ns.c }}{% set ns.z, q = 1, 2 %}{{ ns.z }}{{ q }}",
       "2312"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set (x, y) = (3, 4) %}{{ x }}{{ y }}",
       "12(1, 2)34"},
      {"{% set x %}hello {{ i }}{% set inner = 3 %}{% endset %}{{ x }}|{{ inner }}|{{ x is string }}",
       "hello 3||True"},
      {"{% for x in l %}{{ bos }}{% endfor %}{% set i = 5 %}{% for x in l %}{{ i }}{% endfor %}", "555"},
      {"{% for x in l %}{{ i }}{% endfor %}{% set i = 5 %}", ""},
      {"{% for x in l %}{% for y in l %}{{ i }}{% endfor %}{% set i = 9 %}{{ i }}{% endfor %}", "999"},
      {"{% for x in l %}{% for y in l %}{{ i }}{% endfor %}{% if x == 1 %}{% set i = 9 %}{% endif %}{{ i "
       "}}{% endfor %}",
       "333333393333"},
      {"{{ i }}{% for x in l %}{% for y in l %}{{ i }}{% endfor %}{% set i = 9 %}{{ i }}{% endfor %}",
       "3333933393339"},
      {"{% for i in l %}{{ i }}{% set i = 7 %}{{ i }}{% endfor %}{{ i }}", "3717273"},
      {"{% set x = namespace(y=namespace(z=1)) %}{{ x.y.z }}{% set q = x.y %}{% set q.z = 4 %}{{ x.y.z }}",
       "14"},
      {"{% set _x = 1 %}{{ _x }}", "1"},
      {"{% set m = m[1:] %}{{ m | length }}{% for x in m %}{{ x.content }}{% endfor %}", "3UAu2"},
      {"{% set a = {'b': {'c': 1}} %}{{ a.b.c }}{{ a['b'].c }}{{ a.get('b').get('c') }}{{ a.get('q', "
       "{}).get('c', 'dflt') }}",
       "111dflt"},
      {"  {{ i }}\n  {% set a=1 %}\n b\n", "  3\n b"},
      {"a{% set x=1 %}\n\n\nb", "a\n\nb"},
  });
}

TEST_CASE("jinja: macros and generation blocks as in Jinja") {
  expect({
      {"{% macro f(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c=5) }}{{ f(b=3, "
       "a=0) }}{{ f() }}{{ f(1, 2, 3) | upper }}",
       "[1,2,1][1,2,5][0,3,0][,2,][1,2,3]"},
      {"{% macro fact(n) %}{% if n > 1 %}{{ n * (fact(n - 1) | int) }}{% else %}1{% endif %}{% endmacro %}{{ "
       "fact(10) }}",
       "3628800"},
      {"{% macro g() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ g() }}{% set x = 6 %}{{ g() }}", "56"},
      {"{% macro g() %}{% set y = 1 %}{{ y }}{{ i }}{% endmacro %}{{ g() }}{{ y }}", "13"},
      {"{% generation %}gen {{ i }}{% set zz = 1 %}{% endgeneration %}{{ zz }}", "gen 3"},
      {"{% macro i() %}m{% endmacro %}{{ i() }}", "m"},
  });
}

TEST_CASE("jinja: white space around tags, comments and line ends as in Jinja") {
  expect({
      {"a  {%- if t %}  b  {%- endif -%}  c {{- 1 -}}  d {{ 2 }}  \n   {% if t %}   \n  x\n   {% endif %}\n  "
       " y\n  {#- c -#}  z {# k #}\n   {# own line #}\nq {%+ if t %} r {% endif +%}\n\n",
       "a  bc1d 2  \n   \n  x\n   yz q  r \n"},
      {"{{ '{{' }} {{ \"%}\" }} {{ {'a': {'b': 1}}.a.b }} {{ {'a':{}} }} {#{{ x }}#}", "{{ %} 1 {'a': {}} "},
      {"{% for x in l -%} {{ x }} {%- endfor %}!", "312!"},
      {"a\r\nb\rc\n", "a\nb\nc"},
      {"{% if t %}\r\nx\r\n{% endif %}\r\n", "x\n"},
      {"\n  {%- if t -%}\n x \n{%- endif -%}\n y", "xy"},
      {"{#a#}\n\nb", "\nb"},
      {"{#- a -#}\n\nb", "b"},
      {"{# a #}{% set x=1 %}   \n b", "   \n b"},
      {"{{1}}{#+#}x", "1x"},
      {"{#-#}x", "x"},
      {"a {#--#} x", "ax"},
      {"x{#+ c +#}\ny", "x\ny"},
      {"{%- set x = 1 -%}", ""},
      {"a\n\t {%+ if t %}\nb{% endif +%}\nc", "a\n\t b\nc"},
      {"{{-1}} {{+1}} {{ 1 -}} x", "1 1 1x"},
      {"{{- 1-}}", "1"},
      {"{{ \"a\" -}}\n\n  {{- \"b\" }}", "ab"},
  });
}

TEST_CASE("jinja: faults of rendering name the place and what is wrong") {
  const std::vector<Case> cases = {
      {"a\n  {{ raise_exception('roles must alternate') }}",
       "line 2, column 21: the template says: roles must alternate"},
      {"{{ missing.x }}", "line 1, column 11: 'missing' is undefined"},
      {"{{ missing + 1 }}", "line 1, column 12: 'missing' is undefined"},
      {"{{ m[0].nope.x }}", "line 1, column 13: 'dict object' has no attribute 'nope'"},
      {"{{ 'ä' + 1 }}", "line 1, column 8: '+' is not possible between str and int"},
      {"{{ none + 'a' }}", "line 1, column 9: '+' is not possible between None and str"},
      {"{{ 1 in 'abc' }}", "line 1, column 6: 'in' a string needs a string on its left, not int"},
      {"{{ 3 | length }}", "line 1, column 8: a length is not possible with int"},
      {"{{ [1] | map('string') | length }}", "line 1, column 26: a length is not possible with a generator"},
      {"{{ missing | tojson }}", "line 1, column 14: tojson can't write Undefined"},
      {"{{ ['a', 1] | sort }}", "line 1, column 15: int and str have no order"},
      {"{{ l.append(4) }}", "line 1, column 12: 'append' would change a list, which templates may not"},
      {"{{ d.pop('b') }}", "line 1, column 9: 'pop' would change a dict, which templates may not"},
      {"{{ 'x'.nope() }}", "line 1, column 12: 'str object' has no attribute 'nope'"},
      {"{{ i() }}", "line 1, column 5: a call is not possible with int"},
      {"{% set d.x = 1 %}", "line 1, column 8: can't set the attribute x of dict; only of a namespace"},
      {"{% for a, b in [(1, 2, 3)] %}{% endfor %}", "line 1, column 8: can't unpack 3 values into 2 names"},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
       "line 1, column 35: the macro f takes at most 1 arguments, is given 2"},
      {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}",
       "line 1, column 35: the macro f is given a named argument that it does not take, or twice"},
      {"{{ 'x' | trim(1, 2) }}", "line 1, column 10: trim takes at most 1 arguments, is given 2"},
      {"{{ 'x' | replace('a') }}", "line 1, column 10: replace needs its argument new"},
      {"{{ 'x' | trim(character='a') }}", "line 1, column 10: trim takes no argument named character"},
      {"{{ 'x'.strip(chars='a') }}", "line 1, column 13: strip takes no argument named chars"},
      {"{{ 1 // 0 }}", "line 1, column 6: division by zero"},
      {"{{ {[1]: 2} }}", "line 1, column 4: a dict key is not possible with list"},
      {"{{ range(100001) }}", "line 1, column 9: range() of 100,001 numbers; at most 100,000"},
      {"{{ namespace(_a=1) }}", "line 1, column 13: namespace() takes no names that start with _"},
  };
  for (const auto& [source, fault] : cases) {
    CAPTURE(source);
    CHECK(fault_of(source) == "chat template, " + fault);
  }
}

TEST_CASE("jinja: faults of syntax name the place") {
  const std::vector<Case> cases = {
      {"a\nb {{ x", "line 2, column 3: this tag is never closed with }}"},
      {"{# open", "line 1, column 1: this comment is never closed with #}"},
      {"{{ 'abc }}", "line 1, column 4: this string is never closed"},
      {"{{ (1 }}", "line 1, column 7: unexpected '}', expected ')'"},
      {"{{ ] }}", "line 1, column 4: unexpected ']'"},
      {"{{ a b }}", "line 1, column 6: expected '}}', got 'b'"},
      {"{{ a $ b }}", "line 1, column 6: unexpected character '$' (U+0024)"},
      {"{{ 1 + }}", "line 1, column 8: expected an expression, got '}}'"},
      {"{{ 1 if t else }}", "line 1, column 16: expected an expression, got '}}'"},
      {"{{ not }}", "line 1, column 8: expected an expression, got '}}'"},
      {"{% if t %}x", "line 1, column 12: the template ends before {% endif %}"},
      {"{% if t %}{% endfor %}",
       "line 1, column 14: the tag 'endfor' is not implemented, or not expected here"},
      {"{% set 1 = 2 %}", "line 1, column 8: expected a name, got '1'"},
      {"{% for x in l %}{% set loop = 1 %}{% endfor %}", "line 1, column 24: 'loop' can't be set"},
      {"{% macro f(a, a) %}{% endmacro %}", "line 1, column 15: the parameter a is named twice"},
      {"{{ f(a=1, a=2) }}", "line 1, column 11: the argument a is given twice"},
      {"{{ f(a=1, 2) }}", "line 1, column 11: an argument without a name follows one with a name"},
      {"{% break %}", "line 1, column 4: 'break' and 'continue' need a loop around them"},
      {"{% for x in l %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}",
       "line 1, column 35: 'break' and 'continue' need a loop around them"},
      {"{{ '\\xZZ' }}", "line 1, column 4: the escape \\x is broken or not implemented"},
      {"{{ '\\ud800' }}", "line 1, column 4: the escape \\u is broken or not implemented"},
  };
  for (const auto& [source, fault] : cases) {
    CAPTURE(source);
    CHECK(fault_of(source) == "chat template, " + fault);
  }
}

TEST_CASE("jinja: what is not implemented is refused by name") {
  const std::vector<Case> cases = {
      {"{% block a %}{% endblock %}", "column 4: the tag 'block' is not implemented, or not expected here"},
      {"{% include 'x' %}", "column 4: the tag 'include' is not implemented, or not expected here"},
      {"{% raw %}{{ x }}{% endraw %}", "column 4: the tag 'raw' is not implemented, or not expected here"},
      {"{% for x in l recursive %}{% endfor %}", "column 15: 'recursive' loops are not implemented"},
      {"{% set x | upper %}a{% endset %}", "column 10: a filter on a block 'set' is not implemented"},
      {"{{ 1 | batch(2) }}", "column 8: the filter 'batch' is not implemented"},
      {"{{ 'x' | map('nosuch') | list }}", "column 10: the filter 'nosuch' is not implemented"},
      {"{{ x is filter }}", "column 6: the test 'filter' is not implemented"},
      {"{{ l | select('nosuch') }}", "column 8: the test 'nosuch' is not implemented"},
      {"{{ f(*l) }}", "column 6: '*' before an argument is not implemented"},
      {"{{ self }}", "column 4: the variable 'self' is not implemented"},
      {"{% macro f() %}{{ varargs }}{% endmacro %}", "column 19: the variable 'varargs' is not implemented"},
      {"{{ joiner(',') }}", "column 10: the functions cycler, joiner and lipsum are not implemented"},
      {"{{ 'abc'.zfill(5) }}", "column 9: the attribute 'zfill' of str is not implemented"},
      {"{{ i.real }}", "column 5: the attribute 'real' of int is not implemented"},
      {"{{ d.__class__ }}", "column 5: the attribute __class__ is not implemented"},
      {"{% for x in l %}{{ loop.changed(x) }}{% endfor %}",
       "column 24: the attribute 'changed' of loop is not implemented"},
      {"{{ range(3) }}", "column 9: printing range is not implemented"},
      {"{{ l | map('string') }}", "column 8: printing a generator is not implemented"},
      {"{{ [u] }}", "column 4: printing a list or dict with text outside ASCII is not implemented"},
      {"{{ 'é' | upper }}", "column 10: upper and lower case of text outside ASCII is not implemented"},
      {"{{ '%s' % 1 }}", "column 9: formatting a string with '%' is not implemented"},
      {"{{ ('<' | safe) + '>' }}",
       "column 11: the filter 'safe' is implemented only as the last thing in {{ }}"},
      {"{{ -1 ** i }}", "column 7: a power of a negative number is not implemented"},
      {"{{ 7.5 % 2 }}", "column 8: '%' of floats is not implemented"},
      {"{{ 10 ** 20 }}", "column 7: integers beyond 64 bits are not implemented"},
      {"{{ 9223372036854775807 + 1 }}", "column 24: integers beyond 64 bits are not implemented"},
      {"{{ 1e308 * 10 }}", "column 10: numbers that are infinite or not numbers are not implemented"},
      {"{{ 'nan' | float }}", "column 12: numbers that are infinite or not numbers are not implemented"},
      {"{{ 0x10 }}", "column 4: only plain decimal numbers are implemented"},
      {"{{ m[0, 1] }}", "column 7: an index of several parts is not implemented"},
      {"{% set g = l | map('string') %}{{ g | join }}{{ g | join }}",
       "column 53: going twice through the result of a filter such as map or select is not implemented"},
  };
  for (const auto& [source, fault] : cases) {
    CAPTURE(source);
    CHECK(fault_of(source) == "chat template, line 1, " + fault);
  }
}

TEST_CASE("jinja: templates that would run forever, or fill the memory, end with an error") {
  const std::string loop = "{% for a in range(9999) %}";
  CHECK(fault_of(repeated(loop, 3) + repeated("{% endfor %}", 3)).find("takes more than 2,000,000 steps") !=
        std::string::npos);
  CHECK(fault_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("nested deeper than 1000 levels") !=
        std::string::npos);
  const std::string doubled =
      "{% set ns = namespace(x=X) %}{% for a in range(99) %}{% set ns.x = Y %}{% endfor %}";
  const auto grows = [&](std::string start, std::string step) {
    std::string source = doubled;
    source.replace(source.find('X'), 1, start);
    source.replace(source.find('Y'), 1, step);
    return fault_of(source + "{{ ns.x }}");
  };
  for (const std::string search : {"s in long", "long.find(s)", "long.split(s)", "long.replace(s, '')"}) {
    CAPTURE(search);
    CHECK(fault_of("{% set long = 'x' * 200000 %}{% set s = 'x' * 100000 ~ 'y' %}{{ " + search + " }}")
              .find("takes more than 2,000,000 steps") != std::string::npos);
  }
  CHECK(grows("'ab'", "ns.x ~ ns.x").find("a text grows beyond 16.0") != std::string::npos);
  CHECK(grows("'ab'", "ns.x * 9").find("a text grows beyond 16.0") != std::string::npos);
  CHECK(grows("[1]", "ns.x + ns.x").find("takes more than 2,000,000 steps") != std::string::npos);
  CHECK(grows("[1]", "[ns.x, ns.x]").find("takes more than 2,000,000 steps") != std::string::npos);
  CHECK(fault_of("{% set ns = namespace(x=1) %}{% for a in range(1100) %}{% set ns.x = [ns.x] %}{% endfor "
                 "%}{{ ns.x }}")
            .find("nested deeper than 1000 levels") != std::string::npos);
}

TEST_CASE("jinja: the limits are those that are asked for") {
  CHECK(fault_of("{{ l | length }}", {.steps = 100}) == "rendered: 3");
  CHECK(fault_of("{{ l | length }}", {.steps = 5}).find("takes more than 5 steps") != std::string::npos);
  CHECK(fault_of("{{ 'x' * 10 }}", {.output_bytes = 500}) == "rendered: xxxxxxxxxx");
  CHECK(fault_of("{{ 'x' * 501 }}", {.output_bytes = 500}).find("a text grows beyond 500 B") !=
        std::string::npos);
}

TEST_CASE("jinja: sources that are too large, too deep or not UTF-8 are refused") {
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(fault_of(std::string((256 << 10) + 1, 'x')), "has 262,145 bytes; at most 262,144 are implemented");
  CHECK(fault_of(std::string(256 << 10, 'x')).size() > 256 << 10);
  has(fault_of("ab\xff"), "not UTF-8 at byte 2");
  for (const auto& [open, close] :
       {std::pair{"(", ")"}, {"[", "]"}, {"{1:", "}"}, {"-", ""}, {"not ", ""}, {"f(", ")"}}) {
    CAPTURE(open);
    has(fault_of("{{ " + repeated(open, 50000) + "1" + repeated(close, 50000) + " }}"),
        "nested deeper than 200 levels");
  }
  has(fault_of(repeated("{% if t %}", 20000)), "nested deeper than 200 levels");
  for (const std::string link :
       {" + 1", ".x", "[0]", "|length", "()", " and 1", " ~ (1, 2)[0] + 1", " ** 1"}) {
    CAPTURE(link);
    has(fault_of("{{ 1" + repeated(link, 5000) + " }}"), "an expression deeper than 400 levels");
  }
}

TEST_CASE("jinja: a template renders again and again, with other variables each time") {
  const Jinja parsed = Jinja::parse(
      "{% set x = a | default('none') %}{{ x }}{% for k, v in o.items() %}{{ k }}{{ v }}{% endfor %}");
  CHECK(parsed.render({{"o", Jinja::Variables::object()}}) == "none");
  CHECK(parsed.render(Jinja::Variables::parse(R"({"a": 1, "o": {"z": 1, "b": 2, "a": 3}})")) == "1z1b2a3");
  CHECK(parsed.render({{"o", Jinja::Variables::object()}}) == "none");
}

}  // namespace zt::text
