import OTASMP

/// Why the server does not do what it was asked for, as its answer has it.
enum SMPRefusal: Error {
    /// The same in both versions of SMP.
    case general(Int)
    /// A code of the image group; and what version 1 has in its place, which cannot tell most of them apart.
    case image(Int, first: Int, reason: String? = nil)
    /// The power went.
    case flash(FlashError)

    func fields(version: UInt8) -> SMPServer.Fields {
        switch self {
        case .general(let code): [("rc", .scalar(.unsigned(UInt64(code))))]
        case .image(let code, _, _) where version > 0:
            [("err", .map([("group", .scalar(.unsigned(1))), ("rc", .scalar(.unsigned(UInt64(code))))]))]
        case .image(_, let code, let reason):
            [("rc", .scalar(.unsigned(UInt64(code))))] + (reason.map { [("rsn", .scalar(.text($0)))] } ?? [])
        case .flash: []
        }
    }
}
