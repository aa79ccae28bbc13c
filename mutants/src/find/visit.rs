//! Walks the syntax tree of a file, and records each possible change.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums of syn name all of Rust, and only some of it is changed")]

use super::Kind;
use std::ops::Range;
use syn::{
    Attribute, BinOp, Block, Expr, Lit, ReturnType, Stmt, UnOp,
    spanned::Spanned,
    visit::{self, Visit},
};

/// Methods that can replace each other.
const SWAPS: &[(&str, &str)] = &[
    ("min", "max"),
    ("any", "all"),
    ("is_some", "is_none"),
    ("is_some_and", "is_none_or"),
    ("is_ok", "is_err"),
    ("first", "last"),
    ("first_key_value", "last_key_value"),
    ("saturating_add", "saturating_sub"),
    ("wrapping_add", "wrapping_sub"),
];

/// A change as found.
#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) function: Range<usize>,
    /// The name of the function, with its type.
    pub(super) inside: String,
    pub(super) what: String,
}

/// All changes of a file.
pub(super) fn changes(text: &str, syntax: &syn::File) -> Vec<Mutation> {
    let mut walk = Walk { text, of_type: String::new(), functions: Vec::new(), found: Vec::new() };
    walk.visit_file(syntax);
    walk.found
}

/// The test-only modules in their own files.
pub(super) fn test_modules(syntax: &syn::File) -> Vec<String> {
    let modules = syntax.items.iter().filter_map(|item| if let syn::Item::Mod(module) = item { Some(module) } else { None });
    modules.filter(|module| is_not_product(&module.attrs)).map(|module| module.ident.to_string()).collect()
}

/// Whether only tests or test builds contain it.
fn is_not_product(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            !condition.starts_with("not") && ["test", "planted", "failpoints", "cost"].iter().any(|word| condition.contains(word))
        }
        syn::Meta::Path(path) => path.segments.last().is_some_and(|last| last.ident == "test"),
        syn::Meta::List(_) | syn::Meta::NameValue(_) => false,
    })
}

struct Function {
    name: String,
    range: Range<usize>,
}

struct Walk<'a> {
    text: &'a str,
    of_type: String,
    functions: Vec<Function>,
    found: Vec<Mutation>,
}

impl<'a> Walk<'a> {
    fn source(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    fn add(&mut self, range: Range<usize>, kind: Kind, text: String, what: String) {
        // Outside of functions there are only constants.
        if let Some(function) = self.functions.last() {
            let (inside, function) = (function.name.clone(), function.range.clone());
            self.found.push(Mutation { range, kind, text, function, inside, what });
        }
    }

    fn replace(&mut self, range: Range<usize>, text: String) {
        let what = format!("`{}` becomes `{text}`", self.source(range.clone()));
        self.add(range, Kind::Expression, text, what);
    }

    /// Replaces a part of an expression.
    fn replace_part(&mut self, whole: Range<usize>, part: Range<usize>, with: &str) {
        let (before, after) = (self.source(whole.start..part.start), self.source(part.end..whole.end));
        self.replace(whole.clone(), format!("{before}{with}{after}"));
    }

    fn function(&mut self, name: &syn::Ident, is_const: bool, output: &ReturnType, block: &Block, visit: impl FnOnce(&mut Self)) {
        if is_const || name == "fmt" {
            return;
        }
        let name = if self.of_type.is_empty() { name.to_string() } else { format!("{}::{name}", self.of_type) };
        let range = block.span().byte_range();
        self.functions.push(Function { name, range: range.clone() });
        let start = range.start + 1;
        if !block.stmts.is_empty() {
            for value in values(output) {
                let what = if value.is_empty() { "does nothing".to_owned() } else { format!("returns `{value}`") };
                self.add(start..start, Kind::Body, (*value).to_owned(), what);
            }
        }
        visit(self);
        self.functions.pop();
    }

    /// Whether only a test build can run the following code: a failpoint or a planted bug decides, and the product has
    /// neither.
    fn is_planted(&self, condition: &Expr) -> bool {
        let text = self.source(condition.span().byte_range());
        text.starts_with("planted::has(") || (text.starts_with("failpoint!(") && text.ends_with(".is_err()"))
    }

    /// A condition that no other change negates.
    fn condition(&mut self, condition: &Expr) {
        if matches!(condition, Expr::Call(_) | Expr::MethodCall(_) | Expr::Path(_) | Expr::Field(_) | Expr::Macro(_)) {
            let range = condition.span().byte_range();
            let text = format!("!{}", self.source(range.clone()));
            self.replace(range, text);
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let (whole, operator) = (binary.span().byte_range(), binary.op.span().byte_range());
        let with = match binary.op {
            BinOp::Lt(_) => "<=",
            BinOp::Le(_) => "<",
            BinOp::Gt(_) => ">=",
            BinOp::Ge(_) => ">",
            BinOp::Eq(_) => "!=",
            BinOp::Ne(_) => "==",
            BinOp::Add(_) => "-",
            BinOp::Sub(_) => "+",
            BinOp::Mul(_) => "/",
            BinOp::Div(_) | BinOp::Rem(_) => "*",
            BinOp::And(_) if has_let(&binary.left) || has_let(&binary.right) => {
                self.condition(&binary.left);
                self.condition(&binary.right);
                return;
            }
            BinOp::And(_) => "||",
            BinOp::Or(_) => "&&",
            _ => return,
        };
        self.replace_part(whole, operator, with);
    }

    fn method_call(&mut self, call: &syn::ExprMethodCall) {
        let name = call.method.to_string();
        let other = SWAPS.iter().find_map(|(one, other)| match name {
            _ if name == *one => Some(*other),
            _ if name == *other => Some(*one),
            _ => None,
        });
        if let Some(other) = other {
            self.replace_part(call.span().byte_range(), call.method.span().byte_range(), other);
        }
    }

    fn literal(&mut self, literal: &syn::ExprLit) {
        let range = literal.span().byte_range();
        match &literal.lit {
            Lit::Bool(value) => self.replace(range, (!value.value).to_string()),
            Lit::Int(value) => {
                if let Some(more) = value.base10_parse::<u64>().ok().and_then(|value| value.checked_add(1)) {
                    self.replace(range, format!("{more}{}", value.suffix()));
                }
            }
            _ => {}
        }
    }

    fn statement(&mut self, expression: &Expr, range: Range<usize>) {
        let is_effect = match expression {
            Expr::Assign(_)
            | Expr::Await(_)
            | Expr::Call(_)
            | Expr::Continue(_)
            | Expr::MethodCall(_)
            | Expr::Return(_)
            | Expr::Try(_) => true,
            Expr::Binary(binary) => is_assignment(&binary.op),
            _ => false,
        };
        if is_effect {
            let what = format!("without `{}`", self.source(range.clone()));
            self.add(range, Kind::Statement, String::new(), what);
        }
    }
}

fn is_assignment(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitXorAssign(_)
    )
}

/// Whether a condition binds names: then its parts cannot be parenthesized.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// The values that a function of that type can return at once.
fn values(output: &ReturnType) -> &'static [&'static str] {
    let ReturnType::Type(_, output) = output else { return &[""] };
    let syn::Type::Path(path) = &**output else { return &[] };
    let Some(last) = path.path.segments.last() else { return &[] };
    let argument = match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => arguments.args.first(),
        syn::PathArguments::None | syn::PathArguments::Parenthesized(_) => None,
    };
    let is_unit = matches!(argument, Some(syn::GenericArgument::Type(syn::Type::Tuple(tuple))) if tuple.elems.is_empty());
    match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "Option" => &["None"],
        "Result" if is_unit => &["Ok(())"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i64" | "String" | "Vec" | "BTreeMap" | "BTreeSet" | "Duration" => {
            &["Default::default()"]
        }
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_not_product(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_not_product(&item.attrs) {
            let signature = &item.sig;
            self.function(&signature.ident, signature.constness.is_some(), &signature.output, &item.block, |walk| {
                walk.visit_block(&item.block);
            });
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_not_product(&item.attrs) {
            let signature = &item.sig;
            self.function(&signature.ident, signature.constness.is_some(), &signature.output, &item.block, |walk| {
                walk.visit_block(&item.block);
            });
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let (Some(block), false) = (&item.default, is_not_product(&item.attrs)) {
            let signature = &item.sig;
            self.function(&signature.ident, signature.constness.is_some(), &signature.output, block, |walk| {
                walk.visit_block(block)
            });
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_not_product(&item.attrs) {
            return;
        }
        let name = if let syn::Type::Path(path) = &*item.self_ty {
            path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
        } else {
            String::new()
        };
        let outer = std::mem::replace(&mut self.of_type, name);
        visit::visit_item_impl(self, item);
        self.of_type = outer;
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_not_product(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(semicolon)) = statement {
            let range = expression.span().byte_range().start..semicolon.span().byte_range().end;
            self.statement(expression, range);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let syn::Pat::Guard(guarded) = &arm.pat {
            if !has_let(&guarded.guard) {
                let range = guarded.guard.span().byte_range();
                self.replace(range.clone(), "true".to_owned());
                self.replace(range, "false".to_owned());
            }
            self.visit_expr(&guarded.guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if let Expr::If(condition) = expression
            && self.is_planted(&condition.cond)
        {
            if let Some((_, otherwise)) = &condition.else_branch {
                self.visit_expr(otherwise);
            }
            return;
        }
        match expression {
            Expr::Binary(binary) => self.binary(binary),
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Lit(literal) => self.literal(literal),
            Expr::If(condition) => self.condition(&condition.cond),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let (whole, operand) = (unary.span().byte_range(), unary.expr.span().byte_range());
                let text = self.source(operand).to_owned();
                self.replace(whole, text);
            }
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    // Evaluated at compile time.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
}
