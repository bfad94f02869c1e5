import BlueZ

extension Failure {
    init(_ error: BlueZError, in situation: Situation) {
        self.init(error.code.rawValue, .unavailable, error.context, hint: "type otaflash doctor")
    }
}
