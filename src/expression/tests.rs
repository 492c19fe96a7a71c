use super::*;

const VARIABLES: &[Variable] = &[
    Variable { path: "node.spot", is: Type::Bool, about: "whether a cloud may take the node away" },
    Variable { path: "node.labels", is: Type::Labels, about: "its labels" },
    Variable { path: "node.machine", is: Type::Text, about: "its machine" },
    Variable { path: "gpus.free", is: Type::Number, about: "free GPUs" },
    Variable { path: "gpus.total", is: Type::Number, about: "GPUs" },
    Variable { path: "gpus.types", is: Type::Texts, about: "types of GPUs" },
    Variable { path: "job.tasks", is: Type::Number, about: "tasks" },
    Variable { path: "time.hour", is: Type::Number, about: "the hour" },
];

fn value<'a>(path: &'static str, label: Option<&str>) -> Value<'a> {
    match (path, label) {
        ("node.spot", None) => Value::Bool(true),
        ("node.labels", Some("nvlink")) => Value::Text("yes"),
        ("node.labels", Some(_)) => Value::Text(""),
        ("node.machine", None) => Value::Text("a100-80g-x8"),
        ("gpus.free", None) => Value::Number(3.0),
        ("gpus.total", None) => Value::Number(8.0),
        ("gpus.types", None) => Value::Texts(vec!["a100-80g", "l4"]),
        ("job.tasks", None) => Value::Number(2.0),
        ("time.hour", None) => Value::Number(3.5),
        other => panic!("{other:?} is no variable"),
    }
}

#[test]
fn numbers_are_doubles_and_labels_that_are_missing_are_empty() {
    for (text, is) in [
        ("node.labels.nvlink == 'yes' ? 10 : gpus.free / gpus.total", 10.0f64),
        ("node.labels[\"nvlink\"] != 'yes' ? 10 : gpus.free / gpus.total", 0.375),
        ("1 / 2", 0.5),
        ("-gpus.free + 2 * 3 - 1", 2.0),
        ("size(gpus.types) * 1.5", 3.0),
        ("size(node.machine)", 11.0),
        ("size(gpus.types.filter(t, t.startsWith('a'))) + 1", 2.0),
        ("size(gpus.types.map(t, t))", 2.0),
        ("size([1, 2, 3].map(n, n * 2))", 3.0),
        ("1 / 0 + 0.0 / 0", 0.0),
    ] {
        let expression =
            Expression::new(text, VARIABLES, Type::Number).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(expression.number(value).to_bits(), is.to_bits(), "{text}");
    }
    let large = Expression::new("1e308 * 10 - 1e308 * 10", VARIABLES, Type::Number).expect("it is a number");
    assert!(large.number(value).is_nan());
}

#[test]
fn conditions_are_true_or_false() {
    for (text, is) in [
        ("job.tasks > 1 && node.spot", true),
        ("job.tasks in [1, 2, 4]", true),
        ("'l4' in gpus.types", true),
        ("gpus.types == []", false),
        ("[] != gpus.types", true),
        ("time.hour >= 3 && time.hour < 4", true),
        ("'h100' in gpus.types || node.labels.zone != \"\"", false),
        ("gpus.types.all(t, t.contains('g'))", false),
        ("gpus.types.exists(t, t.endsWith('80g'))", true),
        ("gpus.types.exists_one(t, t == 'l4')", true),
        ("!(node.machine < 'b')", false),
        ("0.0 / 0 < 1", true),
        ("1e308 * 10 - 1e308 * 10 < 1", false),
        ("gpus.types == ['a100-80g', 'l4']", true),
        ("1 in []", false),
    ] {
        let expression = Expression::new(text, VARIABLES, Type::Bool).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(expression.is_true(value), is, "{text}");
    }
}

#[test]
fn what_is_read_is_known() {
    let expression =
        Expression::new("node.spot && job.tasks > job.tasks - 1", VARIABLES, Type::Bool).expect("it is valid");
    assert_eq!(expression.reads().collect::<Vec<_>>(), ["job.tasks", "node.spot"]);
}

#[test]
fn an_expression_that_takes_too_long_is_refused() {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let nested =
        format!("{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, {ten}.all(e, a + b + c + d + e < 50)))))");
    let fault = Expression::new(&nested, VARIABLES, Type::Bool).expect_err("it takes 100,000 rounds");
    assert!(fault.message.contains("the limit is 10000"), "{fault}");
}

/// The parser is recursive. The longest and deepest allowed texts must not exhaust a thread's stack.
#[test]
fn no_text_exhausts_the_stack() {
    let texts = [
        "(".repeat(5_000),
        "!".repeat(1_000) + "true",
        "-".repeat(1_000) + "1",
        "- ".repeat(900) + "1",
        "1+".repeat(999) + "1",
        "true&&".repeat(300) + "true",
        "a.".repeat(999) + "b",
        "true?1:".repeat(280) + "1",
        "[".repeat(1_999),
        "node.spot ? ".repeat(100),
        "a[".repeat(900),
        "size(".repeat(300),
    ];
    for text in texts {
        // Only the absence of a crash matters here.
        let _ = Expression::new(&text, VARIABLES, Type::Bool);
    }
}

/// Each case has a text, its faulty part, and the message with its help.
const MALFORMED: &str = include_str!("malformed.txt");

#[test]
fn malformed_expressions_are_pointed_at() {
    let mut text = String::new();
    let mut count = 0;
    for line in MALFORMED.lines().filter(|line| line.starts_with("| ")) {
        let written = &line[2..];
        let fault = match Expression::new(written, VARIABLES, Type::Bool) {
            Ok(_) => panic!("`{written}` is accepted"),
            Err(fault) => fault,
        };
        count += 1;
        let before = written[..fault.at.start].chars().count();
        let carets = written[fault.at.clone()].chars().count().max(1);
        text += &format!("| {written}\n  {}{} {fault}\n", " ".repeat(before), "^".repeat(carets));
        if let Some(help) = &fault.help {
            text += &format!("  help: {help}\n");
        }
    }
    assert!(count >= 100, "{count} malformed expressions");
    if std::env::var_os("DRYRACK_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/malformed.txt"), &text).expect("it can be written");
    }
    assert_eq!(text, MALFORMED, "set DRYRACK_BLESS=1 to write the new messages, and review them");
}

/// The variable of a device selector of Kubernetes.
#[test]
fn names_in_standard_expressions_are_checked() {
    let device = [("device", &["driver", "attributes", "capacity"][..])];
    for text in [
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model.lowerAscii().contains('a100')",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0",
        "'gpu' in device.attributes && has(device.attributes['gpu'].model)",
        "['a', 'b'].exists(name, device.driver == name) ? true : type(1) == int",
        "{'a': 1}.all(key, key != device.driver)",
        "sets.contains(['a'], [device.driver])",
        "device.attributes[?'gpu'].orValue(false) && device.?driver.hasValue()",
        "cel.bind(own, device.attributes['gpu'], own.model == 'a')",
        "device.attributes['gpu'].?model.optMap(model, model == 'a').orValue(false)",
        "[1, 2].all(index, value, index < value) || {'a': 1}.exists(key, value, key == 'a' && value == 1)",
        "[2, 1].transformList(index, value, value - index).sortBy(value, -value) == lists.range(3)",
        "{'a': 1}.transformMap(key, value, value > 0, value + 1) == {'a': 2}",
        "true",
    ] {
        assert_eq!(check_standard(text, &device), Ok(()), "{text}");
    }
    for (text, at, message, help) in [
        ("device.driver = 'a'", "=", "`=` has no meaning here", "=="),
        ("devic.driver == 'a'", "devic", "`devic` is unknown", "did you mean `device`?"),
        ("true && device.drver == 'a'", "drver", "`device` has no field `drver`", "did you mean `driver`?"),
        ("['a'].exists(name, nam == 'a')", "nam", "`nam` is unknown", "known are device"),
        ("optional.of(1).optMap(own, owm == 1).orValue(true)", "owm", "`owm` is unknown", "known are device"),
        ("device.driver == ", "", "the expression ends too early", ""),
        ("'a'", "'a'", "the expression must be true or false", ""),
    ] {
        let fault = check_standard(text, &device).expect_err(text);
        assert_eq!((&text[fault.at.clone()], fault.message.as_str()), (at, message), "{text}");
        assert!(fault.help.unwrap_or_default().contains(help), "{text}");
    }
}

/// The texts of all comparisons, as they are written, with their places.
fn compared(text: &str) -> Vec<String> {
    let expression = Expression::new(text, VARIABLES, Type::Bool).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let of = |known: &Comparison| {
        let texts: Vec<&str> = known.texts.iter().map(|compared| &text[compared.at.clone()]).collect();
        format!(
            "{}{} {}",
            known.path,
            known.label.as_ref().map_or(String::new(), |key| format!("/{key}")),
            texts.join(" ")
        )
    };
    expression.comparisons().iter().map(of).collect()
}

#[test]
fn the_texts_with_which_variables_are_compared_are_found() {
    for (text, expected) in [
        ("node.labels.zone == 'a' && 'b' != node.machine", "node.labels/zone 'a'; node.machine 'b'"),
        ("node.labels[\"x/y\"] in ['a', \"b\"] || 'l4' in gpus.types", "node.labels/x/y 'a' \"b\"; gpus.types 'l4'"),
        ("gpus.types.exists(g, g == 'l4' && g.startsWith('l'))", "gpus.types 'l4'; gpus.types 'l'"),
        ("node.machine == (node.spot ? 'a' : 'b')", "node.machine 'a' 'b'"),
        ("node.machine.endsWith('-x8') == node.machine.contains('a')", "node.machine '-x8'; node.machine 'a'"),
        ("node.machine == node.labels.zone || 'a'.startsWith(node.machine) || ['a'].exists(g, g == 'a')", ""),
        ("gpus.types.exists(g, ['l4'].exists(g, g == 'x') || g == 'y')", "gpus.types 'y'"),
    ] {
        assert_eq!(compared(text).join("; "), expected, "{text}");
    }
}

/// The value is that of the expression on a node that has none of the texts.
#[test]
fn an_expression_without_possible_texts_may_be_constant() {
    let rows = [
        ("node.labels.zone == 'a'", Some(false)),
        ("node.labels.zone != 'a'", Some(true)),
        ("node.labels.zone == 'a' && gpus.free > 2", Some(false)),
        ("node.labels.zone == 'a' || gpus.free > 2", None),
        ("!(node.labels.zone == 'a' || node.machine in ['a', 'b'])", Some(true)),
        ("gpus.types.exists(g, g == 'h100')", Some(false)),
        ("gpus.types.exists(g, g == 'h100' || g == node.machine)", None),
        ("gpus.types.all(g, g != 'h100')", Some(true)),
        ("gpus.types.exists_one(g, g == 'h100')", Some(false)),
        ("(node.labels.zone == 'a' ? 2 : 1) * 3 > 4", Some(false)),
        ("(node.spot ? node.labels.zone == 'a' : node.labels.zone == 'b')", Some(false)),
        ("node.labels.zone in ['a', node.machine]", None),
        ("gpus.free > 2", None),
        ("size(gpus.types.filter(g, g == 'h100')) > 0", None),
        ("-1 < 0 && 1 / 0 == 0", Some(true)),
        ("(node.machine == 'a' ? 1 : 0) * gpus.free > 1", Some(false)),
    ];
    for (text, expected) in rows {
        let expression = Expression::new(text, VARIABLES, Type::Bool).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(expression.constant(|_, _| false), expected.map(Value::Bool), "{text}");
        if let Some(expected) = expected {
            assert_eq!(expression.is_true(value), expected, "{text}");
        }
    }
    let some =
        Expression::new("node.machine in ['a', 'b'] || node.machine == 'c'", VARIABLES, Type::Bool).expect("sound");
    assert_eq!(some.constant(|_, text| text.text == "c"), None);
    assert_eq!(some.constant(|_, text| text.text == "d"), Some(Value::Bool(false)));
}
