// node_modules/preact/dist/preact.module.js
var n;
var l;
var u;
var t;
var i;
var r;
var o;
var e;
var f;
var c;
var a;
var s;
var h;
var p;
var v;
var y;
var d = {};
var w = [];
var _ = /acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i;
var g = Array.isArray;
function m(n4, l4) {
  for (var u4 in l4) n4[u4] = l4[u4];
  return n4;
}
function b(n4) {
  n4 && n4.parentNode && n4.parentNode.removeChild(n4);
}
function k(l4, u4, t5) {
  var i4, r4, o4, e4 = {};
  for (o4 in u4) "key" == o4 ? i4 = u4[o4] : "ref" == o4 ? r4 = u4[o4] : e4[o4] = u4[o4];
  if (arguments.length > 2 && (e4.children = arguments.length > 3 ? n.call(arguments, 2) : t5), "function" == typeof l4 && null != l4.defaultProps) for (o4 in l4.defaultProps) void 0 === e4[o4] && (e4[o4] = l4.defaultProps[o4]);
  return x(l4, e4, i4, r4, null);
}
function x(n4, t5, i4, r4, o4) {
  var e4 = { type: n4, props: t5, key: i4, ref: r4, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: null == o4 ? ++u : o4, __i: -1, __u: 0 };
  return null == o4 && null != l.vnode && l.vnode(e4), e4;
}
function S(n4) {
  return n4.children;
}
function C(n4, l4) {
  this.props = n4, this.context = l4;
}
function $(n4, l4) {
  if (null == l4) return n4.__ ? $(n4.__, n4.__i + 1) : null;
  for (var u4; l4 < n4.__k.length; l4++) if (null != (u4 = n4.__k[l4]) && null != u4.__e) return u4.__e;
  return "function" == typeof n4.type ? $(n4) : null;
}
function I(n4) {
  if (n4.__P && n4.__d) {
    var u4 = n4.__v, t5 = u4.__e, i4 = [], r4 = [], o4 = m({}, u4);
    o4.__v = u4.__v + 1, l.vnode && l.vnode(o4), q(n4.__P, o4, u4, n4.__n, n4.__P.namespaceURI, 32 & u4.__u ? [t5] : null, i4, null == t5 ? $(u4) : t5, !!(32 & u4.__u), r4), o4.__v = u4.__v, o4.__.__k[o4.__i] = o4, D(i4, o4, r4), u4.__e = u4.__ = null, o4.__e != t5 && P(o4);
  }
}
function P(n4) {
  if (null != (n4 = n4.__) && null != n4.__c) return n4.__e = n4.__c.base = null, n4.__k.some(function(l4) {
    if (null != l4 && null != l4.__e) return n4.__e = n4.__c.base = l4.__e;
  }), P(n4);
}
function A(n4) {
  (!n4.__d && (n4.__d = true) && i.push(n4) && !H.__r++ || r != l.debounceRendering) && ((r = l.debounceRendering) || o)(H);
}
function H() {
  try {
    for (var n4, l4 = 1; i.length; ) i.length > l4 && i.sort(e), n4 = i.shift(), l4 = i.length, I(n4);
  } finally {
    i.length = H.__r = 0;
  }
}
function L(n4, l4, u4, t5, i4, r4, o4, e4, f4, c4, a4) {
  var s4, h5, p5, v4, y5, _4, g4 = t5 && t5.__k || w, m5 = l4.length;
  for (f4 = T(u4, l4, g4, f4, m5), s4 = 0; s4 < m5; s4++) null != (p5 = u4.__k[s4]) && (h5 = -1 != p5.__i && g4[p5.__i] || d, p5.__i = s4, _4 = q(n4, p5, h5, i4, r4, o4, e4, f4, c4, a4), v4 = p5.__e, p5.ref && h5.ref != p5.ref && (h5.ref && J(h5.ref, null, p5), a4.push(p5.ref, p5.__c || v4, p5)), null == y5 && null != v4 && (y5 = v4), 4 & p5.__u ? (f4 = j(p5, f4, n4), h5.__e && (h5.__e = null)) : "function" == typeof p5.type && void 0 !== _4 ? f4 = _4 : v4 && (f4 = v4.nextSibling), p5.__u &= -7);
  return u4.__e = y5, f4;
}
function T(n4, l4, u4, t5, i4) {
  var r4, o4, e4, f4, c4, a4 = u4.length, s4 = a4, h5 = 0;
  for (n4.__k = new Array(i4), r4 = 0; r4 < i4; r4++) null != (o4 = l4[r4]) && "boolean" != typeof o4 && "function" != typeof o4 ? ("string" == typeof o4 || "number" == typeof o4 || "bigint" == typeof o4 || o4.constructor == String ? o4 = n4.__k[r4] = x(null, o4, null, null, null) : g(o4) ? o4 = n4.__k[r4] = x(S, { children: o4 }, null, null, null) : void 0 === o4.constructor && o4.__b > 0 ? o4 = n4.__k[r4] = x(o4.type, o4.props, o4.key, o4.ref ? o4.ref : null, o4.__v) : n4.__k[r4] = o4, f4 = r4 + h5, o4.__ = n4, o4.__b = n4.__b + 1, e4 = null, -1 != (c4 = o4.__i = O(o4, u4, f4, s4)) && (s4--, (e4 = u4[c4]) && (e4.__u |= 2)), null == e4 || null == e4.__v ? (-1 == c4 && (i4 > a4 ? h5-- : i4 < a4 && h5++), "function" != typeof o4.type && (o4.__u |= 4)) : c4 != f4 && (c4 == f4 - 1 ? h5-- : c4 == f4 + 1 ? h5++ : (c4 > f4 ? h5-- : h5++, o4.__u |= 4))) : n4.__k[r4] = null;
  if (s4) for (r4 = 0; r4 < a4; r4++) null != (e4 = u4[r4]) && 0 == (2 & e4.__u) && (e4.__e == t5 && (t5 = $(e4)), K(e4, e4));
  return t5;
}
function j(n4, l4, u4) {
  var t5, i4;
  if ("function" == typeof n4.type) {
    for (t5 = n4.__k, i4 = 0; t5 && i4 < t5.length; i4++) t5[i4] && (t5[i4].__ = n4, l4 = j(t5[i4], l4, u4));
    return l4;
  }
  n4.__e != l4 && (l4 && n4.type && !l4.parentNode && (l4 = $(n4)), l4 = u4.insertBefore(n4.__e, l4 || null));
  do {
    l4 = l4 && l4.nextSibling;
  } while (null != l4 && 8 == l4.nodeType);
  return l4;
}
function O(n4, l4, u4, t5) {
  var i4, r4, o4, e4 = n4.key, f4 = n4.type, c4 = l4[u4], a4 = null != c4 && 0 == (2 & c4.__u);
  if (null === c4 && null == e4 || a4 && e4 == c4.key && f4 == c4.type) return u4;
  if (t5 > (a4 ? 1 : 0)) {
    for (i4 = u4 - 1, r4 = u4 + 1; i4 >= 0 || r4 < l4.length; ) if (null != (c4 = l4[o4 = i4 >= 0 ? i4-- : r4++]) && 0 == (2 & c4.__u) && e4 == c4.key && f4 == c4.type) return o4;
  }
  return -1;
}
function z(n4, l4, u4) {
  "-" == l4[0] ? n4.setProperty(l4, null == u4 ? "" : u4) : n4[l4] = null == u4 ? "" : "number" != typeof u4 || _.test(l4) ? u4 : u4 + "px";
}
function N(n4, l4, u4, t5, i4) {
  var r4, o4;
  n: if ("style" == l4) if ("string" == typeof u4) n4.style.cssText = u4;
  else {
    if ("string" == typeof t5 && (n4.style.cssText = t5 = ""), t5) for (l4 in t5) u4 && l4 in u4 || z(n4.style, l4, "");
    if (u4) for (l4 in u4) t5 && u4[l4] == t5[l4] || z(n4.style, l4, u4[l4]);
  }
  else if ("o" == l4[0] && "n" == l4[1]) r4 = l4 != (l4 = l4.replace(s, "$1")), o4 = l4.toLowerCase(), l4 = o4 in n4 || "onFocusOut" == l4 || "onFocusIn" == l4 ? o4.slice(2) : l4.slice(2), n4.l || (n4.l = {}), n4.l[l4 + r4] = u4, u4 ? t5 ? u4[a] = t5[a] : (u4[a] = h, n4.addEventListener(l4, r4 ? v : p, r4)) : n4.removeEventListener(l4, r4 ? v : p, r4);
  else {
    if ("http://www.w3.org/2000/svg" == i4) l4 = l4.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if ("width" != l4 && "height" != l4 && "href" != l4 && "list" != l4 && "form" != l4 && "tabIndex" != l4 && "download" != l4 && "rowSpan" != l4 && "colSpan" != l4 && "role" != l4 && "popover" != l4 && l4 in n4) try {
      n4[l4] = null == u4 ? "" : u4;
      break n;
    } catch (n5) {
    }
    "function" == typeof u4 || (null == u4 || false === u4 && "-" != l4[4] ? n4.removeAttribute(l4) : n4.setAttribute(l4, "popover" == l4 && 1 == u4 ? "" : u4));
  }
}
function V(n4) {
  return function(u4) {
    if (this.l) {
      var t5 = this.l[u4.type + n4];
      if (null == u4[c]) u4[c] = h++;
      else if (u4[c] < t5[a]) return;
      return t5(l.event ? l.event(u4) : u4);
    }
  };
}
function q(n4, u4, t5, i4, r4, o4, e4, f4, c4, a4) {
  var s4, h5, p5, v4, y5, d5, _4, k4, x3, M2, I2, P2, A4, H2, T4, j4, F2 = u4.type;
  if (void 0 !== u4.constructor) return null;
  128 & t5.__u && (c4 = !!(32 & t5.__u), o4 = [f4 = u4.__e = t5.__e]), (s4 = l.__b) && s4(u4);
  n: if ("function" == typeof F2) {
    h5 = e4.length;
    try {
      if (x3 = u4.props, M2 = F2.prototype && F2.prototype.render, I2 = (s4 = F2.contextType) && i4[s4.__c], P2 = s4 ? I2 ? I2.props.value : s4.__ : i4, t5.__c ? k4 = (p5 = u4.__c = t5.__c).__ = p5.__E : (M2 ? u4.__c = p5 = new F2(x3, P2) : (u4.__c = p5 = new C(x3, P2), p5.constructor = F2, p5.render = Q), I2 && I2.sub(p5), p5.state || (p5.state = {}), p5.__n = i4, v4 = p5.__d = true, p5.__h = [], p5._sb = []), M2 && null == p5.__s && (p5.__s = p5.state), M2 && null != F2.getDerivedStateFromProps && (p5.__s == p5.state && (p5.__s = m({}, p5.__s)), m(p5.__s, F2.getDerivedStateFromProps(x3, p5.__s))), y5 = p5.props, d5 = p5.state, p5.__v = u4, v4) M2 && null == F2.getDerivedStateFromProps && null != p5.componentWillMount && p5.componentWillMount(), M2 && null != p5.componentDidMount && p5.__h.push(p5.componentDidMount);
      else {
        if (M2 && null == F2.getDerivedStateFromProps && x3 !== y5 && null != p5.componentWillReceiveProps && p5.componentWillReceiveProps(x3, P2), u4.__v == t5.__v || !p5.__e && null != p5.shouldComponentUpdate && false === p5.shouldComponentUpdate(x3, p5.__s, P2)) {
          u4.__v != t5.__v && (p5.props = x3, p5.state = p5.__s, p5.__d = false), u4.__e = t5.__e, u4.__k = t5.__k, u4.__k.some(function(n5) {
            n5 && (n5.__ = u4);
          }), w.push.apply(p5.__h, p5._sb), p5._sb = [], p5.__h.length && e4.push(p5), f4 = $(t5);
          break n;
        }
        null != p5.componentWillUpdate && p5.componentWillUpdate(x3, p5.__s, P2), M2 && null != p5.componentDidUpdate && p5.__h.push(function() {
          p5.componentDidUpdate(y5, d5, _4);
        });
      }
      if (p5.context = P2, p5.props = x3, p5.__P = n4, p5.__e = false, A4 = l.__r, H2 = 0, M2) p5.state = p5.__s, p5.__d = false, A4 && A4(u4), s4 = p5.render(p5.props, p5.state, p5.context), w.push.apply(p5.__h, p5._sb), p5._sb = [];
      else do {
        p5.__d = false, A4 && A4(u4), s4 = p5.render(p5.props, p5.state, p5.context), p5.state = p5.__s;
      } while (p5.__d && ++H2 < 25);
      p5.state = p5.__s, null != p5.getChildContext && (i4 = m(m({}, i4), p5.getChildContext())), M2 && !v4 && null != p5.getSnapshotBeforeUpdate && (_4 = p5.getSnapshotBeforeUpdate(y5, d5)), T4 = null != s4 && s4.type === S && null == s4.key ? E(s4.props.children) : s4, f4 = L(n4, g(T4) ? T4 : [T4], u4, t5, i4, r4, o4, e4, f4, c4, a4), p5.base = u4.__e, u4.__u &= -161, p5.__h.length && e4.push(p5), k4 && (p5.__E = p5.__ = null);
    } catch (n5) {
      if (e4.length = h5, u4.__v = null, c4 || null != o4) {
        if (n5.then) {
          for (u4.__u |= c4 ? 160 : 128; f4 && 8 == f4.nodeType && f4.nextSibling; ) f4 = f4.nextSibling;
          null != o4 && (o4[o4.indexOf(f4)] = null), u4.__e = f4;
        } else if (null != o4) for (j4 = o4.length; j4--; ) b(o4[j4]);
      } else u4.__e = t5.__e;
      null == u4.__k && (u4.__k = t5.__k || []), n5.then || B(u4), l.__e(n5, u4, t5);
    }
  } else null == o4 && u4.__v == t5.__v ? (u4.__k = t5.__k, u4.__e = t5.__e) : f4 = u4.__e = G(t5.__e, u4, t5, i4, r4, o4, e4, c4, a4);
  return (s4 = l.diffed) && s4(u4), 128 & u4.__u ? void 0 : f4;
}
function B(n4) {
  n4 && (n4.__c && (n4.__c.__e = true), n4.__k && n4.__k.some(B));
}
function D(n4, u4, t5) {
  for (var i4 = 0; i4 < t5.length; i4++) J(t5[i4], t5[++i4], t5[++i4]);
  l.__c && l.__c(u4, n4), n4.some(function(u5) {
    try {
      n4 = u5.__h, u5.__h = [], n4.some(function(n5) {
        n5.call(u5);
      });
    } catch (n5) {
      l.__e(n5, u5.__v);
    }
  });
}
function E(n4) {
  return "object" != typeof n4 || null == n4 || n4.__b > 0 ? n4 : g(n4) ? n4.map(E) : void 0 !== n4.constructor ? null : m({}, n4);
}
function G(u4, t5, i4, r4, o4, e4, f4, c4, a4) {
  var s4, h5, p5, v4, y5, w5, _4, m5 = i4.props || d, k4 = t5.props, x3 = t5.type;
  if ("svg" == x3 ? o4 = "http://www.w3.org/2000/svg" : "math" == x3 ? o4 = "http://www.w3.org/1998/Math/MathML" : o4 || (o4 = "http://www.w3.org/1999/xhtml"), null != e4) {
    for (s4 = 0; s4 < e4.length; s4++) if ((y5 = e4[s4]) && "setAttribute" in y5 == !!x3 && (x3 ? y5.localName == x3 : 3 == y5.nodeType)) {
      u4 = y5, e4[s4] = null;
      break;
    }
  }
  if (null == u4) {
    if (null == x3) return document.createTextNode(k4);
    u4 = document.createElementNS(o4, x3, k4.is && k4), c4 && (l.__m && l.__m(t5, e4), c4 = false), e4 = null;
  }
  if (null == x3) m5 === k4 || c4 && u4.data == k4 || (u4.data = k4);
  else {
    if (e4 = "textarea" == x3 && null != k4.defaultValue ? null : e4 && n.call(u4.childNodes), !c4 && null != e4) for (m5 = {}, s4 = 0; s4 < u4.attributes.length; s4++) m5[(y5 = u4.attributes[s4]).name] = y5.value;
    for (s4 in m5) y5 = m5[s4], "dangerouslySetInnerHTML" == s4 ? p5 = y5 : "children" == s4 || s4 in k4 || "value" == s4 && "defaultValue" in k4 || "checked" == s4 && "defaultChecked" in k4 || N(u4, s4, null, y5, o4);
    for (s4 in k4) y5 = k4[s4], "children" == s4 ? v4 = y5 : "dangerouslySetInnerHTML" == s4 ? h5 = y5 : "value" == s4 ? w5 = y5 : "checked" == s4 ? _4 = y5 : c4 && "function" != typeof y5 || m5[s4] === y5 || N(u4, s4, y5, m5[s4], o4);
    if (h5) c4 || p5 && (h5.__html == p5.__html || h5.__html == u4.innerHTML) || (u4.innerHTML = h5.__html), t5.__k = [];
    else if (p5 && (u4.innerHTML = ""), L("template" == t5.type ? u4.content : u4, g(v4) ? v4 : [v4], t5, i4, r4, "foreignObject" == x3 ? "http://www.w3.org/1999/xhtml" : o4, e4, f4, e4 ? e4[0] : i4.__k && $(i4, 0), c4, a4), null != e4) for (s4 = e4.length; s4--; ) b(e4[s4]);
    c4 && "textarea" != x3 || (s4 = "value", "progress" == x3 && null == w5 ? u4.removeAttribute("value") : null != w5 && (w5 !== u4[s4] || "progress" == x3 && !w5 || "option" == x3 && w5 != m5[s4]) && N(u4, s4, w5, m5[s4], o4), s4 = "checked", null != _4 && _4 != u4[s4] && N(u4, s4, _4, m5[s4], o4));
  }
  return u4;
}
function J(n4, u4, t5) {
  try {
    if ("function" == typeof n4) {
      var i4 = "function" == typeof n4.__u;
      i4 && n4.__u(), i4 && null == u4 || (n4.__u = n4(u4));
    } else n4.current = u4;
  } catch (n5) {
    l.__e(n5, t5);
  }
}
function K(n4, u4, t5) {
  var i4, r4;
  if (l.unmount && l.unmount(n4), (i4 = n4.ref) && (i4.current && i4.current != n4.__e || J(i4, null, u4)), null != (i4 = n4.__c)) {
    if (i4.componentWillUnmount) try {
      i4.componentWillUnmount();
    } catch (n5) {
      l.__e(n5, u4);
    }
    i4.base = i4.__P = i4.__n = null;
  }
  if (i4 = n4.__k) for (r4 = 0; r4 < i4.length; r4++) i4[r4] && K(i4[r4], u4, t5 || "function" != typeof n4.type);
  t5 || b(n4.__e), n4.__c = n4.__ = n4.__e = void 0;
}
function Q(n4, l4, u4) {
  return this.constructor(n4, u4);
}
function R(u4, t5, i4) {
  var r4, o4, e4, f4;
  t5 == document && (t5 = document.documentElement), l.__ && l.__(u4, t5), o4 = (r4 = "function" == typeof i4) ? null : i4 && i4.__k || t5.__k, e4 = [], f4 = [], q(t5, u4 = (!r4 && i4 || t5).__k = k(S, null, [u4]), o4 || d, d, t5.namespaceURI, !r4 && i4 ? [i4] : o4 ? null : t5.firstChild ? n.call(t5.childNodes) : null, e4, !r4 && i4 ? i4 : o4 ? o4.__e : t5.firstChild, r4, f4), D(e4, u4, f4), u4.props.children = null;
}
n = w.slice, l = { __e: function(n4, l4, u4, t5) {
  for (var i4, r4, o4; l4 = l4.__; ) if ((i4 = l4.__c) && !i4.__) try {
    if ((r4 = i4.constructor) && null != r4.getDerivedStateFromError && (i4.setState(r4.getDerivedStateFromError(n4)), o4 = i4.__d), null != i4.componentDidCatch && (i4.componentDidCatch(n4, t5 || {}), o4 = i4.__d), o4) return i4.__E = i4;
  } catch (l5) {
    n4 = l5;
  }
  throw n4;
} }, u = 0, t = function(n4) {
  return null != n4 && void 0 === n4.constructor;
}, C.prototype.setState = function(n4, l4) {
  var u4;
  u4 = null != this.__s && this.__s != this.state ? this.__s : this.__s = m({}, this.state), "function" == typeof n4 && (n4 = n4(m({}, u4), this.props)), n4 && m(u4, n4), null != n4 && this.__v && (l4 && this._sb.push(l4), A(this));
}, C.prototype.forceUpdate = function(n4) {
  this.__v && (this.__e = true, n4 && this.__h.push(n4), A(this));
}, C.prototype.render = S, i = [], o = "function" == typeof Promise ? Promise.prototype.then.bind(Promise.resolve()) : setTimeout, e = function(n4, l4) {
  return n4.__v.__b - l4.__v.__b;
}, H.__r = 0, f = Math.random().toString(8), c = "__d" + f, a = "__a" + f, s = /(PointerCapture)$|Capture$/i, h = 0, p = V(false), v = V(true), y = 0;

// node_modules/preact/hooks/dist/hooks.module.js
var t2;
var r2;
var u2;
var i2;
var o2 = 0;
var f2 = [];
var c2 = l;
var e2 = c2.__b;
var a2 = c2.__r;
var v2 = c2.diffed;
var l2 = c2.__c;
var m2 = c2.unmount;
var p2 = c2.__;
function s2(n4, t5) {
  c2.__h && c2.__h(r2, n4, o2 || t5), o2 = 0;
  var u4 = r2.__H || (r2.__H = { __: [], __h: [] });
  return n4 >= u4.__.length && u4.__.push({}), u4.__[n4];
}
function d2(n4) {
  return o2 = 1, y2(D2, n4);
}
function y2(n4, u4, i4) {
  var o4 = s2(t2++, 2);
  if (o4.t = n4, !o4.__c && (o4.__ = [i4 ? i4(u4) : D2(void 0, u4), function(n5) {
    var t5 = o4.__N ? o4.__N[0] : o4.__[0], r4 = o4.t(t5, n5);
    t5 !== r4 && (o4.__N = [r4, o4.__[1]], o4.__c.setState({}));
  }], o4.__c = r2, !r2.__f)) {
    var f4 = function(n5, t5, r4) {
      if (!o4.__c.__H) return true;
      var u5 = false, i5 = o4.__c.props !== n5;
      if (o4.__c.__H.__.some(function(n6) {
        if (n6.__N) {
          u5 = true;
          var t6 = n6.__[0];
          n6.__ = n6.__N, n6.__N = void 0, t6 !== n6.__[0] && (i5 = true);
        }
      }), c4) {
        var f5 = c4.call(this, n5, t5, r4);
        return u5 ? f5 || i5 : f5;
      }
      return !u5 || i5;
    };
    r2.__f = true;
    var c4 = r2.shouldComponentUpdate, e4 = r2.componentWillUpdate;
    r2.componentWillUpdate = function(n5, t5, r4) {
      if (this.__e) {
        var u5 = c4;
        c4 = void 0, f4(n5, t5, r4), c4 = u5;
      }
      e4 && e4.call(this, n5, t5, r4);
    }, r2.shouldComponentUpdate = f4;
  }
  return o4.__N || o4.__;
}
function h2(n4, u4) {
  var i4 = s2(t2++, 3);
  !c2.__s && C2(i4.__H, u4) && (i4.__ = n4, i4.u = u4, r2.__H.__h.push(i4));
}
function _2(n4, u4) {
  var i4 = s2(t2++, 4);
  !c2.__s && C2(i4.__H, u4) && (i4.__ = n4, i4.u = u4, r2.__h.push(i4));
}
function A2(n4) {
  return o2 = 5, T2(function() {
    return { current: n4 };
  }, []);
}
function T2(n4, r4) {
  var u4 = s2(t2++, 7);
  return C2(u4.__H, r4) && (u4.__ = n4(), u4.__H = r4, u4.__h = n4), u4.__;
}
function j2() {
  for (var n4; n4 = f2.shift(); ) {
    var t5 = n4.__H;
    if (n4.__P && t5) try {
      t5.__h.some(z2), t5.__h.some(B2), t5.__h = [];
    } catch (r4) {
      t5.__h = [], c2.__e(r4, n4.__v);
    }
  }
}
c2.__b = function(n4) {
  r2 = null, e2 && e2(n4);
}, c2.__ = function(n4, t5) {
  n4 && t5.__k && t5.__k.__m && (n4.__m = t5.__k.__m), p2 && p2(n4, t5);
}, c2.__r = function(n4) {
  a2 && a2(n4), t2 = 0;
  var i4 = (r2 = n4.__c).__H;
  i4 && (u2 === r2 ? (i4.__h = [], r2.__h = [], i4.__.some(function(n5) {
    n5.__N && (n5.__ = n5.__N), n5.u = n5.__N = void 0;
  })) : (i4.__h.some(z2), i4.__h.some(B2), i4.__h = [], t2 = 0)), u2 = r2;
}, c2.diffed = function(n4) {
  v2 && v2(n4);
  var t5 = n4.__c;
  t5 && t5.__H && (t5.__H.__h.length && (1 !== f2.push(t5) && i2 === c2.requestAnimationFrame || ((i2 = c2.requestAnimationFrame) || w2)(j2)), t5.__H.__.some(function(n5) {
    n5.u && (n5.__H = n5.u, n5.u = void 0);
  })), u2 = r2 = null;
}, c2.__c = function(n4, t5) {
  t5.some(function(n5) {
    try {
      n5.__h.some(z2), n5.__h = n5.__h.filter(function(n6) {
        return !n6.__ || B2(n6);
      });
    } catch (r4) {
      t5.some(function(n6) {
        n6.__h && (n6.__h = []);
      }), t5 = [], c2.__e(r4, n5.__v);
    }
  }), l2 && l2(n4, t5);
}, c2.unmount = function(n4) {
  m2 && m2(n4);
  var t5, r4 = n4.__c;
  r4 && r4.__H && (r4.__H.__.some(function(n5) {
    try {
      z2(n5);
    } catch (n6) {
      t5 = n6;
    }
  }), r4.__H = void 0, t5 && c2.__e(t5, r4.__v));
};
var k2 = "function" == typeof requestAnimationFrame;
function w2(n4) {
  var t5, r4 = function() {
    clearTimeout(u4), k2 && cancelAnimationFrame(t5), setTimeout(n4);
  }, u4 = setTimeout(r4, 35);
  k2 && (t5 = requestAnimationFrame(r4));
}
function z2(n4) {
  var t5 = r2, u4 = n4.__c;
  "function" == typeof u4 && (n4.__c = void 0, u4()), r2 = t5;
}
function B2(n4) {
  var t5 = r2;
  n4.__c = n4.__(), r2 = t5;
}
function C2(n4, t5) {
  return !n4 || n4.length !== t5.length || t5.some(function(t6, r4) {
    return t6 !== n4[r4];
  });
}
function D2(n4, t5) {
  return "function" == typeof t5 ? t5(n4) : t5;
}

// node_modules/@preact/signals-core/dist/signals-core.module.js
var i3 = /* @__PURE__ */ Symbol.for("preact-signals");
function t3() {
  if (!(v3 > 1)) {
    var i4, t5 = false;
    !(function() {
      var i5 = c3;
      c3 = void 0;
      while (void 0 !== i5) {
        var t6 = i5.S;
        if (t6.v === i5.v) {
          for (var r5 = t6.t; void 0 !== r5; r5 = r5.x) if (r5.i === i5.i) r5.i = t6.i;
        }
        i5 = i5.o;
      }
    })();
    while (void 0 !== h3) {
      var r4 = h3;
      h3 = void 0;
      s3++;
      while (void 0 !== r4) {
        var n4 = r4.u;
        r4.u = void 0;
        r4.f &= -3;
        if (!(8 & r4.f) && w3(r4)) try {
          r4.c();
        } catch (r5) {
          if (!t5) {
            i4 = r5;
            t5 = true;
          }
        }
        r4 = n4;
      }
    }
    s3 = 0;
    v3--;
    if (t5) throw i4;
  } else v3--;
}
function r3(i4) {
  if (v3 > 0) return i4();
  u3 = ++e3;
  v3++;
  try {
    return i4();
  } finally {
    t3();
  }
}
var n2;
var o3 = void 0;
function f3(i4) {
  var t5 = o3, r4 = n2;
  o3 = void 0;
  n2 = void 0;
  try {
    return i4();
  } finally {
    o3 = t5;
    n2 = r4;
  }
}
var h3 = void 0;
var v3 = 0;
var s3 = 0;
var e3 = 0;
var u3 = 0;
var c3 = void 0;
var a3 = 0;
function d3(i4) {
  if (void 0 !== o3) {
    var t5 = i4.n;
    if (void 0 === t5 || t5.t !== o3) {
      t5 = { i: 0, S: i4, p: o3.s, n: void 0, t: o3, e: void 0, x: void 0, r: t5 };
      if (void 0 !== o3.s) o3.s.n = t5;
      o3.s = t5;
      i4.n = t5;
      if (32 & o3.f) i4.S(t5);
      return t5;
    } else if (-1 === t5.i) {
      t5.i = 0;
      if (void 0 !== t5.n) {
        t5.n.p = t5.p;
        if (void 0 !== t5.p) t5.p.n = t5.n;
        t5.p = o3.s;
        t5.n = void 0;
        o3.s.n = t5;
        o3.s = t5;
      }
      return t5;
    }
  }
}
function l3(i4, t5) {
  this.v = i4;
  this.i = 0;
  this.n = void 0;
  this.t = void 0;
  this.l = 0;
  this.W = null == t5 ? void 0 : t5.watched;
  this.Z = null == t5 ? void 0 : t5.unwatched;
  this.name = null == t5 ? void 0 : t5.name;
}
l3.prototype.brand = i3;
l3.prototype.h = function() {
  return true;
};
l3.prototype.S = function(i4) {
  var t5 = this, r4 = this.t;
  if (r4 !== i4 && void 0 === i4.e) {
    i4.x = r4;
    this.t = i4;
    if (void 0 !== r4) r4.e = i4;
    else f3(function() {
      var i5;
      null == (i5 = t5.W) || i5.call(t5);
    });
  }
};
l3.prototype.U = function(i4) {
  var t5 = this;
  if (void 0 !== this.t) {
    var r4 = i4.e, n4 = i4.x;
    if (void 0 !== r4) {
      r4.x = n4;
      i4.e = void 0;
    }
    if (void 0 !== n4) {
      n4.e = r4;
      i4.x = void 0;
    }
    if (i4 === this.t) {
      this.t = n4;
      if (void 0 === n4) f3(function() {
        var i5;
        null == (i5 = t5.Z) || i5.call(t5);
      });
    }
  }
};
l3.prototype.subscribe = function(i4) {
  var t5 = this;
  return x2(function() {
    var r4 = t5.value;
    f3(function() {
      return i4(r4);
    });
  }, { name: "sub" });
};
l3.prototype.valueOf = function() {
  return this.value;
};
l3.prototype.toString = function() {
  return this.value + "";
};
l3.prototype.toJSON = function() {
  return this.value;
};
l3.prototype.peek = function() {
  var i4 = this;
  return f3(function() {
    return i4.value;
  });
};
Object.defineProperty(l3.prototype, "value", { get: function() {
  var i4 = d3(this);
  if (void 0 !== i4) i4.i = this.i;
  return this.v;
}, set: function(i4) {
  if (i4 !== this.v) {
    if (s3 > 100) throw new Error("Cycle detected");
    !(function(i5) {
      if (0 !== v3 && 0 === s3) {
        if (i5.l !== u3) {
          i5.l = u3;
          c3 = { S: i5, v: i5.v, i: i5.i, o: c3 };
        }
      }
    })(this);
    this.v = i4;
    this.i++;
    a3++;
    v3++;
    try {
      for (var r4 = this.t; void 0 !== r4; r4 = r4.x) r4.t.N();
    } finally {
      t3();
    }
  }
} });
function y3(i4, t5) {
  return new l3(i4, t5);
}
function w3(i4) {
  for (var t5 = i4.s; void 0 !== t5; t5 = t5.n) if (t5.S.i !== t5.i || !t5.S.h() || t5.S.i !== t5.i) return true;
  return false;
}
function b2(i4) {
  for (var t5 = i4.s; void 0 !== t5; t5 = t5.n) {
    var r4 = t5.S.n;
    if (void 0 !== r4) t5.r = r4;
    t5.S.n = t5;
    t5.i = -1;
    if (void 0 === t5.n) {
      i4.s = t5;
      break;
    }
  }
}
function _3(i4) {
  var t5 = i4.s, r4 = void 0;
  while (void 0 !== t5) {
    var n4 = t5.p;
    if (-1 === t5.i) {
      t5.S.U(t5);
      if (void 0 !== n4) n4.n = t5.n;
      if (void 0 !== t5.n) t5.n.p = n4;
    } else r4 = t5;
    t5.S.n = t5.r;
    if (void 0 !== t5.r) t5.r = void 0;
    t5 = n4;
  }
  i4.s = r4;
}
function j3(i4, t5) {
  l3.call(this, void 0, t5);
  this.x = i4;
  this.s = void 0;
  this.g = a3 - 1;
  this.f = 4;
}
j3.prototype = new l3();
j3.prototype.h = function() {
  this.f &= -3;
  if (1 & this.f) return false;
  if (32 == (36 & this.f)) return true;
  this.f &= -5;
  if (this.g === a3) return true;
  this.g = a3;
  this.f |= 1;
  if (this.i > 0 && !w3(this)) {
    this.f &= -2;
    return true;
  }
  var i4 = o3;
  try {
    b2(this);
    o3 = this;
    var t5 = this.x();
    if (16 & this.f || this.v !== t5 || 0 === this.i) {
      this.v = t5;
      this.f &= -17;
      this.i++;
    }
  } catch (i5) {
    this.v = i5;
    this.f |= 16;
    this.i++;
  }
  o3 = i4;
  _3(this);
  this.f &= -2;
  return true;
};
j3.prototype.S = function(i4) {
  if (void 0 === this.t) {
    this.f |= 36;
    for (var t5 = this.s; void 0 !== t5; t5 = t5.n) t5.S.S(t5);
  }
  l3.prototype.S.call(this, i4);
};
j3.prototype.U = function(i4) {
  if (void 0 !== this.t) {
    l3.prototype.U.call(this, i4);
    if (void 0 === this.t) {
      this.f &= -33;
      for (var t5 = this.s; void 0 !== t5; t5 = t5.n) t5.S.U(t5);
    }
  }
};
j3.prototype.N = function() {
  if (!(2 & this.f)) {
    this.f |= 6;
    for (var i4 = this.t; void 0 !== i4; i4 = i4.x) i4.t.N();
  }
};
Object.defineProperty(j3.prototype, "value", { get: function() {
  if (1 & this.f) throw new Error("Cycle detected");
  var i4 = d3(this);
  this.h();
  if (void 0 !== i4) i4.i = this.i;
  if (16 & this.f) throw this.v;
  return this.v;
} });
function O2(i4, t5) {
  return new j3(i4, t5);
}
function p3(i4) {
  var r4 = i4.j;
  i4.j = void 0;
  if ("function" == typeof r4) {
    v3++;
    var n4 = o3;
    o3 = void 0;
    try {
      r4();
    } catch (t5) {
      i4.f &= -2;
      i4.f |= 8;
      g2(i4);
      throw t5;
    } finally {
      o3 = n4;
      t3();
    }
  }
}
function g2(i4) {
  for (var t5 = i4.s; void 0 !== t5; t5 = t5.n) t5.S.U(t5);
  i4.x = void 0;
  i4.s = void 0;
  p3(i4);
}
function S2(i4) {
  if (o3 !== this) throw new Error("Out-of-order effect");
  _3(this);
  o3 = i4;
  this.f &= -2;
  try {
    if (8 & this.f) g2(this);
  } finally {
    t3();
  }
}
function m3(i4, t5) {
  this.x = i4;
  this.j = void 0;
  this.s = void 0;
  this.u = void 0;
  this.f = 32;
  this.name = null == t5 ? void 0 : t5.name;
  if (n2) n2.push(this);
}
m3.prototype.c = function() {
  var i4 = this.S();
  try {
    if (8 & this.f) return;
    if (void 0 === this.x) return;
    var t5 = this.x();
    if ("function" == typeof t5) this.j = t5;
  } finally {
    i4();
  }
};
m3.prototype.S = function() {
  if (1 & this.f) throw new Error("Cycle detected");
  this.f |= 1;
  this.f &= -9;
  p3(this);
  b2(this);
  v3++;
  var i4 = o3;
  o3 = this;
  return S2.bind(this, i4);
};
m3.prototype.N = function() {
  if (!(2 & this.f)) {
    this.f |= 2;
    this.u = h3;
    h3 = this;
  }
};
m3.prototype.d = function() {
  this.f |= 8;
  if (!(1 & this.f)) g2(this);
};
m3.prototype.dispose = function() {
  this.d();
};
function x2(i4, t5) {
  var r4 = new m3(i4, t5);
  try {
    r4.c();
  } catch (i5) {
    r4.d();
    throw i5;
  }
  var n4 = r4.d.bind(r4);
  n4[Symbol.dispose] = n4;
  return n4;
}

// node_modules/@preact/signals/dist/signals.module.js
var h4;
var d4;
var p4;
var m4 = "undefined" != typeof window && !!window.__PREACT_SIGNALS_DEVTOOLS__;
var g3 = [];
x2(function() {
  h4 = this.N;
})();
function b3(i4, n4) {
  l[i4] = n4.bind(null, l[i4] || function() {
  });
}
function y4(i4) {
  if (p4) {
    var n4 = p4;
    p4 = void 0;
    n4();
  }
  p4 = i4 && i4.S();
}
function w4(i4) {
  var n4 = this, r4 = i4.data, t5 = useSignal(r4);
  t5.name = "ReactiveDom";
  t5.value = r4;
  var e4 = T2(function() {
    var i5 = n4, r5 = n4.__v;
    while (r5 = r5.__) if (r5.__c) {
      r5.__c.__$f |= 4;
      break;
    }
    var o4 = O2(function() {
      var i6 = t5.value.value;
      return 0 === i6 ? 0 : true === i6 ? "" : i6 || "";
    }), e5 = O2(function() {
      return !Array.isArray(o4.value) && !t(o4.value);
    }), u5 = x2(function() {
      this.N = M;
      if (e5.value) {
        var n5 = o4.value;
        if (i5.__v && i5.__v.__e && 3 === i5.__v.__e.nodeType) i5.__v.__e.data = n5;
      }
    }), c5 = n4.__$u.d;
    n4.__$u.d = function() {
      u5();
      c5.call(this);
    };
    return [e5, o4];
  }, []), u4 = e4[0], c4 = e4[1];
  return u4.value ? c4.peek() : c4.value;
}
w4.displayName = "ReactiveTextNode";
Object.defineProperties(l3.prototype, { constructor: { configurable: true, value: k(S, null).constructor }, type: { configurable: true, value: w4 }, props: { configurable: true, get: function() {
  var i4 = this;
  return { data: { get value() {
    return i4.value;
  } } };
} }, __b: { configurable: true, value: 1 } });
b3("__b", function(i4, n4) {
  y4();
  d4 = void 0;
  if ("string" == typeof n4.type) {
    var r4, t5 = n4.props;
    for (var f4 in t5) if ("children" !== f4) {
      var o4 = t5[f4];
      if (o4 instanceof l3) {
        if (!r4) n4.__np = r4 = {};
        r4[f4] = o4;
        t5[f4] = o4.peek();
      }
    }
  }
  i4(n4);
});
b3("__r", function(i4, r4) {
  i4(r4);
  if (r4.type !== S) {
    y4();
    var t5, f4 = r4.__c;
    if (f4) {
      f4.__$f &= -2;
      if (void 0 === (t5 = f4.__$u)) f4.__$u = t5 = (function(i5, n4) {
        var r5;
        x2(function() {
          r5 = this;
        }, { name: n4 });
        r5.c = i5;
        return r5;
      })(/* @__PURE__ */ (function(i5) {
        return function() {
          var n4;
          if (m4) null == (n4 = this.y) || n4.call(this);
          i5.__$f |= 1;
          i5.setState({});
        };
      })(f4), "function" == typeof r4.type ? r4.type.displayName || r4.type.name : "");
    }
    d4 = f4;
    y4(t5);
  }
});
b3("__e", function(i4, n4, r4, t5) {
  y4();
  d4 = void 0;
  i4(n4, r4, t5);
});
b3("diffed", function(i4, n4) {
  y4();
  d4 = void 0;
  var r4;
  if ("string" == typeof n4.type && (r4 = n4.__e)) {
    var t5 = n4.__np, f4 = n4.props, o4 = r4.U;
    if (o4) for (var e4 in o4) {
      var u4 = o4[e4];
      if (!(void 0 === u4 || t5 && e4 in t5)) {
        u4.d();
        o4[e4] = void 0;
      }
    }
    if (t5) {
      if (!o4) {
        o4 = {};
        r4.U = o4;
      }
      for (var a4 in t5) {
        var c4 = o4[a4], v4 = t5[a4];
        if (void 0 === c4) {
          c4 = k3(r4, a4, v4, f4);
          o4[a4] = c4;
        } else c4.o(v4, f4);
      }
    }
  }
  i4(n4);
});
function k3(i4, n4, r4, t5) {
  var f4 = n4 in i4 && void 0 === i4.ownerSVGElement, o4 = y3(r4);
  return { o: function(i5, n5) {
    o4.value = i5;
    t5 = n5;
  }, d: x2(function() {
    this.N = M;
    var r5 = o4.value.value;
    if (t5[n4] !== r5) {
      t5[n4] = r5;
      if (f4) i4[n4] = r5;
      else if (null != r5 && (false !== r5 || "-" === n4[4])) i4.setAttribute(n4, r5);
      else i4.removeAttribute(n4);
    }
  }) };
}
b3("unmount", function(i4, n4) {
  if ("string" == typeof n4.type) {
    var r4 = n4.__e;
    if (r4) {
      var t5 = r4.U;
      if (t5) {
        r4.U = void 0;
        for (var f4 in t5) {
          var o4 = t5[f4];
          if (o4) o4.d();
        }
      }
    }
    var e4 = n4.__np;
    if (e4) {
      var u4 = n4.props;
      for (var a4 in e4) u4[a4] = e4[a4];
    }
    n4.__np = void 0;
  } else {
    var c4 = n4.__c;
    if (c4) {
      c4.__$f |= 8;
      var v4 = c4.__$u;
      if (v4) {
        c4.__$u = void 0;
        v4.d();
      }
    }
  }
  i4(n4);
});
b3("__h", function(i4, n4, r4, t5) {
  if (t5 < 3) n4.__$f |= 2;
  i4(n4, r4, t5);
});
C.prototype.shouldComponentUpdate = function(i4, n4) {
  if (this.__R) return true;
  var r4 = this.__$u, t5 = r4 && void 0 !== r4.s;
  for (var f4 in n4) return true;
  if (this.__f || "boolean" == typeof this.u && true === this.u) {
    var o4 = 2 & this.__$f;
    if (!(t5 || o4 || 4 & this.__$f)) return true;
    if (1 & this.__$f) return true;
  } else {
    if (!(t5 || 4 & this.__$f)) return true;
    if (3 & this.__$f) return true;
  }
  for (var e4 in i4) if ("__source" !== e4 && i4[e4] !== this.props[e4]) return true;
  for (var u4 in this.props) if (!(u4 in i4)) return true;
  return false;
};
function useSignal(i4, n4) {
  return T2(function() {
    return y3(i4, n4);
  }, []);
}
var A3 = function(i4) {
  queueMicrotask(function() {
    queueMicrotask(i4);
  });
};
function F() {
  r3(function() {
    var i4;
    while (i4 = g3.shift()) h4.call(i4);
  });
}
function M() {
  if (1 === g3.push(this)) (l.requestAnimationFrame || A3)(F);
}

// node_modules/htm/dist/htm.module.js
var n3 = function(t5, s4, r4, e4) {
  var u4;
  s4[0] = 0;
  for (var h5 = 1; h5 < s4.length; h5++) {
    var p5 = s4[h5++], a4 = s4[h5] ? (s4[0] |= p5 ? 1 : 2, r4[s4[h5++]]) : s4[++h5];
    3 === p5 ? e4[0] = a4 : 4 === p5 ? e4[1] = Object.assign(e4[1] || {}, a4) : 5 === p5 ? (e4[1] = e4[1] || {})[s4[++h5]] = a4 : 6 === p5 ? e4[1][s4[++h5]] += a4 + "" : p5 ? (u4 = t5.apply(a4, n3(t5, a4, r4, ["", null])), e4.push(u4), a4[0] ? s4[0] |= 2 : (s4[h5 - 2] = 0, s4[h5] = u4)) : e4.push(a4);
  }
  return e4;
};
var t4 = /* @__PURE__ */ new Map();
function htm_module_default(s4) {
  var r4 = t4.get(this);
  return r4 || (r4 = /* @__PURE__ */ new Map(), t4.set(this, r4)), (r4 = n3(this, r4.get(s4) || (r4.set(s4, r4 = (function(n4) {
    for (var t5, s5, r5 = 1, e4 = "", u4 = "", h5 = [0], p5 = function(n5) {
      1 === r5 && (n5 || (e4 = e4.replace(/^\s*\n\s*|\s*\n\s*$/g, ""))) ? h5.push(0, n5, e4) : 3 === r5 && (n5 || e4) ? (h5.push(3, n5, e4), r5 = 2) : 2 === r5 && "..." === e4 && n5 ? h5.push(4, n5, 0) : 2 === r5 && e4 && !n5 ? h5.push(5, 0, true, e4) : r5 >= 5 && ((e4 || !n5 && 5 === r5) && (h5.push(r5, 0, e4, s5), r5 = 6), n5 && (h5.push(r5, n5, 0, s5), r5 = 6)), e4 = "";
    }, a4 = 0; a4 < n4.length; a4++) {
      a4 && (1 === r5 && p5(), p5(a4));
      for (var l4 = 0; l4 < n4[a4].length; l4++) t5 = n4[a4][l4], 1 === r5 ? "<" === t5 ? (p5(), h5 = [h5], r5 = 3) : e4 += t5 : 4 === r5 ? "--" === e4 && ">" === t5 ? (r5 = 1, e4 = "") : e4 = t5 + e4[0] : u4 ? t5 === u4 ? u4 = "" : e4 += t5 : '"' === t5 || "'" === t5 ? u4 = t5 : ">" === t5 ? (p5(), r5 = 1) : r5 && ("=" === t5 ? (r5 = 5, s5 = e4, e4 = "") : "/" === t5 && (r5 < 5 || ">" === n4[a4][l4 + 1]) ? (p5(), 3 === r5 && (h5 = h5[0]), r5 = h5, (h5 = h5[0]).push(2, 0, r5), r5 = 0) : " " === t5 || "	" === t5 || "\n" === t5 || "\r" === t5 ? (p5(), r5 = 2) : e4 += t5), 3 === r5 && "!--" === e4 && (r5 = 4, h5 = h5[0]);
    }
    return p5(), h5;
  })(s4)), r4), arguments, [])).length > 1 ? r4 : r4[0];
}

// entry.js
var html = htm_module_default.bind(k);
export {
  C as Component,
  S as Fragment,
  r3 as batch,
  O2 as computed,
  x2 as effect,
  k as h,
  html,
  R as render,
  y3 as signal,
  h2 as useEffect,
  _2 as useLayoutEffect,
  T2 as useMemo,
  A2 as useRef,
  d2 as useState
};
