/// What CBOR (RFC 8949) can say in an SMP packet. Maps have text keys.
package enum CBORValue: Sendable, Equatable {
    case unsigned(UInt64)
    /// −1 − n.
    case negative(UInt64)
    case bytes([UInt8])
    case text(String)
    case array([CBORValue])
    case map([String: CBORValue])
    case bool(Bool)
    case float(Double)
    /// Null, and what CBOR calls undefined.
    case null
}

extension CBORValue {
    /// An integer that fits an `Int`.
    package var integer: Int? {
        switch self {
        case .unsigned(let number): Int(exactly: number)
        case .negative(let number): Int(exactly: number).map { -1 - $0 }
        default: nil
        }
    }

    package var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
    package var text: String? { if case .text(let text) = self { text } else { nil } }
    /// A text for people, cut to 200 Unicode scalars and `…`.
    package var shortText: String? {
        text.map { text in
            let start = text.unicodeScalars.prefix(200)
            return start.endIndex == text.endIndex ? text : String(start) + "…"
        }
    }
    package var bool: Bool? { if case .bool(let bool) = self { bool } else { nil } }
    package var array: [CBORValue]? { if case .array(let items) = self { items } else { nil } }
    package var map: [String: CBORValue]? { if case .map(let entries) = self { entries } else { nil } }

    /// A count or an offset in bytes: never negative here.
    package init(_ count: Int) { self = .unsigned(UInt64(max(count, 0))) }
}
