/// The body of an answer: what was asked for, or why not.
package enum SMPAnswer: Sendable, Equatable {
    case good([String: CBORValue])
    case bad(SMPError)

    /// A device may answer a question of version 2 with an error as version 1 has it, and does so for all that has nothing to
    /// do with the group. It is good where there is no error, and `rc` is 0 or not there.
    package init(parsing body: [UInt8]) throws(SMPFrameError) {
        let fields: [String: CBORValue]?
        do {
            fields = try CBORDecoder.decode(body).map
        } catch {
            throw SMPFrameError(context: "the device's answer is not CBOR: \(error.context)")
        }
        guard let fields else { throw SMPFrameError(context: "the device's answer is no map") }
        if let error = fields["err"] {
            guard let error = error.map, let group = error["group"]?.integer.flatMap(UInt16.init(exactly:)),
                let code = error["rc"]?.integer
            else {
                throw SMPFrameError(context: "the device's error has no group or no code")
            }
            self = code == 0 ? .good(fields) : .bad(SMPError(group: group, code: code))
        } else if let code = fields["rc"], code != .unsigned(0) {
            guard let code = code.integer else { throw SMPFrameError(context: "the device's error is no number") }
            self = .bad(SMPError(code: code, reason: fields["rsn"]?.shortText))
        } else {
            self = .good(fields)
        }
    }
}
