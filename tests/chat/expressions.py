"""Expressions of chat templates whose text must be jinja2's, one per line. `tools` is a list of objects.

Not here, because they differ: `none` is printed as nothing (llama.cpp's rule, which templates rely on); a filter
returns a list, dictsort an object; numbers such as 1e20, 0x1f and 1_000, chained comparisons, cycler, joiner, lipsum,
and the filters attr, filesizeformat, random, striptags, urlencode, wordwrap and xmlattr are missing.
"""

EXPRESSIONS = r"""
tools|selectattr('b', 'defined')|list
tools|selectattr('b', 'undefined')|list
tools|selectattr('a')|list
none|selectattr('a')|map('upper')|list
tools|selectattr('a', 'equalto', 1)|list
tools|selectattr('a', '==', 1)|list
tools|selectattr('a', 'eq', 1)|list
tools|selectattr('a', '>', 1)|list
tools|selectattr('a', 'gt', 1)|list
tools|selectattr('a', 'ge', 2)|list
tools|selectattr('a', 'lt', 2)|list
tools|selectattr('a', 'le', 1)|list
tools|selectattr('a', 'ne', 1)|list
tools|selectattr('a', '!=', 1)|list
tools|selectattr('a', 'in', [1, 5])|list
tools|selectattr('n', 'none')|list
tools|selectattr('s', 'string')|list
tools|selectattr('a', 'number')|list
tools|rejectattr('b', 'defined')|list
tools|rejectattr('a', 'equalto', 1)|list
tools|rejectattr('a')|list
tools|map(attribute='a')|list
tools|map(attribute='b', default=7)|list
tools|map('length')|list
[1,2,3]|map('string')|list
['a','B']|map('upper')|list
['a','b']|map('replace', 'a', 'x')|list
[3,1,2]|select('odd')|list
[3,1,2]|select('gt', 1)|list
[3,0,2]|select|list
[3,0,2]|reject|list
[3,1,2]|reject('odd')|list
[1,2,3,4]|select('divisibleby', 2)|list
'%s is %d'|format('x', 5)
'%5.2f|%-5s|%05d|%x|%%'|format(3.14159, 'ab', 42, 255)
'%(a)s'|format(a=1)
'%r'|format('a')
'{} {}'.format('a', 1)
'{0} {1} {0}'.format('a', 1)
'{a}'.format(a=5)
'%s' % 'a'
'%s-%s' % ('a', 'b')
[1,2,3,4,5]|batch(2)|list
[1,2,3,4,5]|batch(2, 'x')|list
[1,2,3,4,5]|slice(2)|list
[1,2,3,4,5]|slice(3, 'x')|list
[1,2,1,3]|unique|list
['a','A','b']|unique|list
['a','A','b']|unique(case_sensitive=true)|list
tools|unique(attribute='a')|list
7 // 2
-7 // 2
7.5 // 2
7 % 3
-7 % 3
2 ** 10
7 / 2
[1, 'a', none, true, 2.5, {'k': [1]}]
{'a': 1, 'b': [1, 'x']}
(1, 2)
['it\'s', "q\"q", 'a\nb', 'é', '\\']
[]
{}
true
1.0
'a' in 'abc'
[1,2]|first
[1,2]|last
[]|first is defined
[1,2]|sum
tools|sum(attribute='a')
tools|sum(attribute='a', start=10)
[3,1]|min
[3,1]|max
tools|max(attribute='a')
'hello world'|title
'hello'|capitalize
'hello'|center(11)
'hello world foo'|wordcount
'hello world'|truncate(7)
'hello world foo bar'|truncate(12, true)
'hello world foo bar'|truncate(12, false, '..', 0)
3.7|int
'3'|int
'x'|int(5)
'3.5'|float
3.14159|round(2)
2.5|round
2.1|round(0, 'ceil')
2.9|round(0, 'floor')
-3|abs
'a'|list
{'a':1}|items|list
[3,1,2]|sort
[3,1,2]|sort(reverse=true)
['b','A']|sort
['b','A']|sort(case_sensitive=true)
tools|sort(attribute='a')|map(attribute='a')|list
tools|groupby('a')|list|length
[1,2,3]|reverse|list
'abc'|reverse
[1,2]|join('-')
tools|join(',', attribute='a')
'a,b'.split(',')
'a  b '.split()
' a '.strip()
'abc'.startswith('a')
'abc'.endswith(('c','d'))
'abc'.find('b')
'abc'.index('b')
'abcabc'.count('b')
'a-b'.partition('-')
'abc'.replace('b', 'x')
'ABC'.lower()
'abc'.isdigit()
'12'.isdigit()
'abc'.isalpha()
'Hello'.swapcase()
'abc'.upper()
'a\nb'.splitlines()
'abc'.rjust(5)
'5'.zfill(3)
'abc'.lstrip('a')
'-'.join(['a','b'])
'abc'.removeprefix('a')
'abc'.removesuffix('c')
'<a>'|escape
'<a>'|e
'a\nb'|indent(2)
'a\nb'|indent(2, true)
'x'|default('y')
undefinedvar|default('y')
''|default('y', true)
'a'|d('b')
'abc'|length
'abc'|count
'abc'[::-1]
'abc'[-1]
[1,2,3][::2]
[1,2,3][1:]
1 if false else 2
(1 if false) is undefined
not true
1 == 1.0
'a' * 3
[1] + [2]
[1] * 2
1 is odd
2 is even
4 is divisibleby 2
'a' is string
1 is number
1 is integer
1.5 is float
true is boolean
[] is iterable
'a' is iterable
{} is mapping
[] is sequence
x is undefined
none is none
'a' is lower
'A' is upper
1 is sameas 1
1 is eq 1
2 is gt 1
1 is in [1]
'a' is in 'abc'
range is callable
'odd' is test
range(3)|list
range(1, 10, 3)|list
dict(a=1, b=2)
dict(a=1).items()|list
{'a':1}.get('b', 5)
{'a':1}.keys()|list
{'a':1}.values()|list
{'a': 1}|length
[1,2]|tojson
{'a': 'é<'}|tojson
{'a': [1, {'b': none}]}|tojson(indent=2)
'x'|string
1|string
[1,'a']|string
none|string
1.5|string
[[1,2],[3]]|map('first')|list
'abc'|select('in', 'ab')|list
['', 'a']|select|list
[1,none,2]|select('none')|list
'a%sb' % 5
'a' 'b'
"a\tb"
[1,2,3]|length > 2
tools[0].a
tools[0]['a']
tools[0].get('zz') is none
tools[5] is undefined
tools|list|length
'a.b.c'.rsplit('.', 1)
'hello'|replace('l', 'L', 1)
'hello'.replace('l', 'L', 1)
'x'|trim
'xxaxx'|trim('x')
'a\nb\nc'|wordcount
1 and 0
0 or 'x'
'x' or 'y'
[] or 'e'
{'a':1} == {'a':1}
[1,2] == [1,2]
'a' < 'b'
[1,2,3] is sequence
3 in [1,2,3]
3 not in [1,2,3]
'k' in {'k':1}
namespace(a=1).a
loop is defined
10 % 4 * 2
2 + 3 * 4
-2 ** 2
"abc"|upper|lower
(1, 2, 3)|list
(1, 2)[0]
{1: 2}
{'x': (1, 2)}
[true, false, none]
""".strip().splitlines()
