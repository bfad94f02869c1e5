/// Something that doctor has looked at.
package struct Check: Encodable, Sendable, Equatable {
    package enum State: String, Encodable, Sendable {
        case ok
        /// A push works, and could be faster or safer.
        case slow
        /// A push does not work.
        case missing
    }
    /// Stable.
    package let name: String
    package let state: State
    /// What was seen.
    package let message: String
    /// What to do, with the words to type, one step a line.
    package let advice: [String]?

    static func ok(_ name: String, _ message: String) -> Check {
        Check(name: name, state: .ok, message: message, advice: nil)
    }

    static func slow(_ name: String, _ message: String, _ advice: String...) -> Check {
        Check(name: name, state: .slow, message: message, advice: advice)
    }

    static func missing(_ name: String, _ message: String, _ advice: String...) -> Check {
        Check(name: name, state: .missing, message: message, advice: advice)
    }
}
