from django.urls import include, path

handler403 = "inspector.access.denied"
handler500 = "inspector.failure.broken"

urlpatterns = [path("", include("inspector.urls"))]
