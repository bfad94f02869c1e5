import OTASMP

/// Encodes CBOR as Zephyr's server does: maps and arrays have indefinite length and end with a break. Map entries keep the given order.
enum IndefiniteCBOR {
    typealias Field = (key: String, value: Value)

    enum Value {
        case scalar(CBORValue)
        case list([Value])
        case map([Field])
    }

    static func encode(_ value: Value) -> [UInt8] {
        switch value {
        case .scalar(let scalar): CBOREncoder.encode(scalar)
        case .list(let items): [0x9F] + items.flatMap(encode) + [0xFF]
        case .map(let fields):
            [0xBF] + fields.flatMap { CBOREncoder.encode(.text($0.key)) + encode($0.value) } + [0xFF]
        }
    }
}
