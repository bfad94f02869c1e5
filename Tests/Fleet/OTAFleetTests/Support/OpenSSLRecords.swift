import OTAFirmware
import OTASigning

/// Two signed records that `openssl pkeyutl -sign -rawin` signed, over JSON that Python wrote. The seeds of the keys are the bytes 0 to 31
/// (operator) and 32 to 63 (controller).
enum OpenSSLRecords {
    static let operatorKey = Hex.decode("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8") ?? []
    static let controllerKey = Hex.decode("29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7") ?? []

    static let rollout = """
        {"schema":1,"kind":"rollout","payload":"eyJzY2hlbWEiOjEsInJvbGxvdXQiOiJ0LTE0MCIsInNlcmlhbCI6Mywic3RhdGUiOiJy\
        dW5uaW5nIiwicmVsZWFzZSI6IjA1YjNhYmYyNTc5YTVlYjYiLCJtYW5pZmVzdF9zaGEyNTYiOiIwNWIzYWJmMjU3OWE1ZWI2NjQwM2NkNzhi\
        ZTU1N2ZkODYwNjMzYTFmZTIxMDNjNzY0MjAzMGRlZmUzMmM2NTdmIiwic2VsZWN0Ijp7InByb2R1Y3QiOiJhY21lLXRoZXJtb3N0YXQiLCJy\
        dW5uaW5nIjoiPDEuNC4wIiwiZ3JvdXBzIjpbXX0sInN0YWdlcyI6W3sicGVyY2VudCI6MSwiYWR2YW5jZSI6eyJzdWNjZXNzX3BlcmNlbnQi\
        Ojk1LCJtaW5pbXVtIjoyMCwic29ha19zZWNvbmRzIjozNjAwfX0seyJwZXJjZW50IjoxMH0seyJwZXJjZW50IjoxMDB9XSwiaGFsdCI6eyJm\
        YWlsZWRfcGVyY2VudCI6NSwibWluaW11bSI6MTB9LCJhdHRlbXB0cyI6MywiZW5yb2xsZWQiOnsibGlua3MiOiJhbGwiLCJzaGEyNTYiOiI3\
        MzI2ZmYzZWY4ZWRjOWE2MmU1Yzk0ODMwNGRjYzc0OTAxNmYwMWUwMDQ0YWFjMWRjMmRmNjk0NjYxODk5Y2E0In0sInNhbHQiOiIwMDAxMDIw\
        MzA0MDUwNjA3MDgwOTBhMGIwYzBkMGUwZiIsImNvbnRyb2xsZXJzIjpbIjI5YWNiYWUxNDFiY2NhZjBiMjJlMWE5NGQzNGQwYmM3MzYxZTUy\
        NmQwYmZlMTJjODk3OTRiYzkzMjI5NjZkZDciXSwiY3JlYXRlZCI6IjIwMjYtMTEtMjJUMTg6MDA6MDBaIiwiZXhwaXJlcyI6IjIwMjYtMTIt\
        MjJUMTg6MDA6MDBaIn0=","signatures":[{"key_id":"56475aa75463474c","signature":"clw1JUJPd5VXXqvk54qnHBldKWyQ9l\
        K5jDI75WJfiQl9uzEj9ZFMZC38kM+EyLk1lhDLGVdpnoj8jf6ccTMwCg=="}]}
        """

    static let progress = """
        {"schema":1,"kind":"progress","payload":"eyJzY2hlbWEiOjEsInJvbGxvdXQiOiJ0LTE0MCIsInNlcmlhbCI6NDEsInJvbGxvdXR\
        fc2VyaWFsIjozLCJzdGF0ZSI6InJ1bm5pbmciLCJzdGFnZSI6MSwiY291bnRzIjp7ImRvbmUiOjk0LCJydW5uaW5nIjo4LCJmYWlsZWQiOjA\
        sInJlZnVzZWQiOjAsIndhaXRpbmciOjJ9LCJhdCI6IjIwMjYtMTEtMjJUMTg6MDA6MDBaIn0=","signatures":[{"key_id":"24f6ed6a\
        cbfe1009","signature":"kIehUaK/YruY0v+aWpxaKmdA3Ac9Igt7rAFNzdx9MgrgOtpQ+vra2mqf9LZCkhn4ryvum0WpjtCYZICD+ewtD\
        g=="}]}
        """
}
