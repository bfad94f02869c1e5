/// Metrics in the text format of Prometheus, version 0.0.4.
///
/// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
package struct PrometheusText: Sendable {
    package enum Kind: String, Sendable {
        case counter, gauge, histogram
    }

    /// A label of a sample: its name and its value. The value can contain any characters.
    package typealias Label = (name: String, value: String)

    /// The text. Each line ends with a line feed.
    package private(set) var text = ""

    private var name = ""

    package init() {}

    /// Begins a metric with this name. Its samples must follow directly.
    package mutating func metric(_ name: String, _ kind: Kind, _ help: String) {
        self.name = name
        text += "# HELP \(name) \(Self.escaped(help, quotes: false))\n# TYPE \(name) \(kind.rawValue)\n"
    }

    /// Adds a sample of the current metric.
    package mutating func sample(_ value: Int, _ labels: [Label] = []) { line(name, "\(value)", labels) }

    /// Adds the samples of one histogram of the current metric. Each bucket also counts the values of the lower buckets.
    package mutating func histogram(_ histogram: Histogram, _ labels: [Label] = []) {
        var count = 0
        for (bound, number) in zip(Histogram.bounds, histogram.buckets) {
            count += number
            line(name + "_bucket", "\(count)", labels + [("le", "\(bound)")])
        }
        line(name + "_bucket", "\(histogram.count)", labels + [("le", "+Inf")])
        line(name + "_sum", "\(histogram.sum)", labels)
        line(name + "_count", "\(histogram.count)", labels)
    }

    private mutating func line(_ name: String, _ value: String, _ labels: [Label]) {
        let list = labels.map { "\($0.name)=\"\(Self.escaped($0.value, quotes: true))\"" }.joined(separator: ",")
        text += list.isEmpty ? "\(name) \(value)\n" : "\(name){\(list)} \(value)\n"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        // A carriage return and a line feed are one character, so this loop uses scalars.
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}

/// The distribution of durations.
package struct Histogram: Sendable {
    /// The upper bounds of the buckets, in seconds. A store in a file answers in milliseconds, and a request to a server ends after 5 s.
    package static let bounds = [0.001, 0.01, 0.1, 1.0, 5.0]

    /// The number of durations in each bucket. The durations above the last bound are only in `count`.
    private(set) var buckets = [Int](repeating: 0, count: bounds.count)
    private(set) var count = 0
    /// The sum of all durations, in seconds.
    private(set) var sum = 0.0

    package init() {}

    package mutating func add(_ duration: Duration) {
        let seconds = duration / .seconds(1)
        count += 1
        sum += seconds
        if let index = Self.bounds.firstIndex(where: { seconds <= $0 }) { buckets[index] += 1 }
    }
}
